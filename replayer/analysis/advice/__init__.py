"""Advice for the reader of a run: headline, warnings, estimates."""
