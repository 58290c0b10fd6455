"""The collector `waits`: what those wait for who do a step's work."""
