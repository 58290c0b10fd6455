"""Sizing: from the profile of a source to a requirement, and to the verdict on a machine."""
