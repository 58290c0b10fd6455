"""The capacity of a machine or a database: its scalability, saturation and ceilings."""
