"""Experiments: several variants of one workload, measured in a drawn order, and what they show."""
