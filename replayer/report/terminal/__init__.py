"""Reports as a terminal shows them: renderables of rich, at most 100 columns wide."""
