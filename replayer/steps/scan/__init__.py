"""The step `scan`: the database reads the whole table by SQL statements, usually from disk."""
