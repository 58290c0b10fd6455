"""The database server: replayer's own private server, or a remote one started by another user."""
