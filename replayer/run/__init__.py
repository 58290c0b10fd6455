"""One run: the workload file, what is checked before, the runner, and what a step may use."""
