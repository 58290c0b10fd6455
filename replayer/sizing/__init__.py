"""Sizing: from a server's profile or capture to a requirement, and to a verdict on a machine."""
