"""Shortlists: predictions of whether the machines of a catalogue fit the profiled databases."""
