-- What sets a server is not to be replayed with what its clients did.
SET log_min_duration_statement = -1
-- then
SET log_statement = 'none'
-- then
SET log_duration = off
