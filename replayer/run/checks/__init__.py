"""Checks before a workload runs: of this machine, of client hosts, and of an engine's SQL."""
