"""Measurements of the machine without a database: one file each, all over one I/O engine."""
