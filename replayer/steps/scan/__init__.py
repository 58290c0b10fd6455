"""The step `scan`: the table read with the database, from cold."""
