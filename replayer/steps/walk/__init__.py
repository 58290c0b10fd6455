"""The step `walk`: every file read whole, from cold."""
