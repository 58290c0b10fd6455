"""The step `flush`: writes all of the table to disk, and proves that nothing is left to write."""
