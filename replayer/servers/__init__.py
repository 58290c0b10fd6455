"""The database server: one of replayer's own, or one that somebody else started."""
