"""The collector `profile`: call chains of all processors, by perf."""
