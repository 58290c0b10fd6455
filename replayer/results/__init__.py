"""Run <-> JSON: the history of the format, and what all importers share."""
