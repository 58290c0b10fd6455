"""Predictions of which machines of a catalogue fit the databases that profiles are from."""
