"""schemas/NAME -> checked verbs; how their servers are reached, and with which password."""
