"""The capacity of a machine or a database: scalability, saturation, ceilings."""
