"""The plan of a run: the workload file, the request, the forecast, the resumed run."""
