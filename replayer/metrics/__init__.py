"""The metrics of runs for Prometheus: of finished runs, and of a run while it works."""
