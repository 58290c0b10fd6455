"""The history of a metric over all stored runs: its series, and where its level changed."""
