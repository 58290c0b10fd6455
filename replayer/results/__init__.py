"""Runs as JSON files: the store, the history of the format, and code that all importers share."""
