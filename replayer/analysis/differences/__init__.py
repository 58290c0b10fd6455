"""Two groups of runs: their samples, the statistics, and a verdict for each metric."""
