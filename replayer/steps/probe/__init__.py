"""The step `probe`: the machine without a database."""
