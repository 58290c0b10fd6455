"""Captures: the statements that databases really executed, converted from logs into a replay file.

An action is a connect, a statement or a disconnect of one session (module `action`).  The module
`archive` writes and reads a file of actions.  The file also has, for each statement, its form
without values (`fingerprint`) and, for each action, the earlier actions for which a replay waits
(`ordering`).
"""
