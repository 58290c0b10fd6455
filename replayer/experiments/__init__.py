"""Experiments: variants of one run that are measured in turns, so that a cause can be named."""
