"""A run on the host of the database, by the agent there: its order goes there, its Runs come back.

Everything local to the data is local to the run then: collectors, device counters, residency,
dropping caches, host facts, the server's processes.  `here` is the end of whoever typed the
command, `there` the one beside the data; the others are what goes between them.
"""
