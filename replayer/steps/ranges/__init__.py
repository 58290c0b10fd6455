"""The step `ranges`: sessions that read random ranges of the table by its sort key."""
