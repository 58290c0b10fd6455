"""Conditions set before the measurement starts: cache temperature and memory limits."""
