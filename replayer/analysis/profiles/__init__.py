"""Analysis of a profile of a database server: use of resources, and windows of any length."""
