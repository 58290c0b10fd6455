"""The step `sessions`: random reads by the SLOB method, or a mix of statements, in sessions."""
