"""Comparison of two groups of runs: samples, statistics, and a verdict for each metric."""
