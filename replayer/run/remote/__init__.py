"""A run on the host of the database: replayer there gets the request and sends the Runs back.

Everything that is local to the data is then local to the run: collectors, device counters,
residency, dropping caches, host facts, the server's processes. `caller` is the end on the host
where the user typed the command. `executor` is the end next to the data. The other modules carry
messages between them.
"""
