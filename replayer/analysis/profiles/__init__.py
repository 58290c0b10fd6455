"""Analysis of a source's profile: use of resources, and windows of any length."""
