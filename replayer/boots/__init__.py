"""The plan of boots: after each boot do the due step, then start the next kernel once."""
