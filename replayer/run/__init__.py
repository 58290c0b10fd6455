"""One run: the workload file, the checks before it, the runner, and the objects a step may use."""
