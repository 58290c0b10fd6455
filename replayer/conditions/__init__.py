"""What is true before the clock starts: how cold the cache is, how much memory there is."""
