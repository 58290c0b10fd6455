"""The live page of a run: a read-only web page, served by a separate process next to the run.

The process of the run uses only `launcher`, which binds the address and hands over the socket.
Everything else happens in the process of `__main__`, which has a lower priority and ends with the
run.
"""
