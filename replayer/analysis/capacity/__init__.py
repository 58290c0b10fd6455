"""How much a machine or a database can do: scalability, saturation, ceilings."""
