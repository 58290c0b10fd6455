"""What a profile of a source says: use of resources, and windows of any length."""
