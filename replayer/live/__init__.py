"""The page that follows a run: a process of its own beside it, from which nothing can be changed.

`starting` is its part in the process of the run, which only binds the address and hands the socket
over; all else happens in `__main__`, at a lower priority, and ends with the run.
"""
