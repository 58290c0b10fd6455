"""The command line itself: its parser, secrets in its words, its streams, addresses in it."""
