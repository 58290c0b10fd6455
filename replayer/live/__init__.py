"""The live page of a run: a read-only web page, served by a separate process next to the run.

`launcher` is the part in the process of the run: it only binds the address and hands over the
socket.  All the rest happens in `__main__`, at a lower priority, and ends with the run.
"""
