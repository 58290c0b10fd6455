"""Checks that run before a workload does: each one tries whether this machine allows a thing."""
