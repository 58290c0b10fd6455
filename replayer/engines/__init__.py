"""Database engines: the SQL and settings of each, connections to servers, and passwords.

A folder of schemas/ describes an engine.
"""
