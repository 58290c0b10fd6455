"""Captures: the statements that databases really executed, converted from logs into a replay file.

A log's entries become actions (`action`).  A file of actions is written and read by `archive`.  The
file also has, for each statement, its form without values (`fingerprint`) and, for each action, the
earlier actions for which a replay waits (`ordering`).
"""
