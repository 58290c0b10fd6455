"""Captures: the statements that databases really executed, converted from logs into a replay file.

A log's entries become actions (`action`).  A file of actions is written and read by `archive`.  It
also has the form of each statement (`fingerprint`) and what each action waits for (`ordering`).
"""
