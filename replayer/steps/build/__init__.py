"""The step `build`: the table, doubled until it is large enough."""
