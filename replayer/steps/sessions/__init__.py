"""The step `sessions`: random reads of the SLOB method."""
