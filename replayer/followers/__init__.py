"""Followers of a run while it is performed: the terminal, a page in a browser, Prometheus.

`options` has the options for the command line. `followed_run` performs a run and reports to all of
its followers.
"""
