"""The command line: its parser, the secrets and addresses in it, and the standard streams."""
