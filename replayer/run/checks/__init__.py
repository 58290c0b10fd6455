"""Checks before a run: each tries what the machine allows."""
