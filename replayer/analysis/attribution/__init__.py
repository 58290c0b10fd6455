"""Accounts of where a window's time went, and explanations of why they differ."""
