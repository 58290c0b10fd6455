"""Where the time of a window went, and what explains that it differs."""
