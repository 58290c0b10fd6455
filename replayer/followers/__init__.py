"""Followers of a run that is under way: the terminal, a page in a browser, Prometheus.

`options` are the command line's, `followed_run` performs a run for all who follow it.
"""
