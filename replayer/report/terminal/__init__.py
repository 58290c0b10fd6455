"""Reports for a terminal: renderables of rich, at most 100 columns wide."""
