"""Machines of a catalogue against profiles: predictions of which fit, before one is rented."""
