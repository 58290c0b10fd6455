-- What sets a server is not to be replayed with what its clients did.
SET SESSION sql_log_off = 1
