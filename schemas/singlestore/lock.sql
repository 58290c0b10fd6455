-- No lock lives as long as a connection here, so the database itself is the sign: whoever is in it
-- beside this connection is another replayer.
CREATE DATABASE IF NOT EXISTS replayer
-- then
USE replayer
-- then
SELECT COUNT(*) = 0 AS locked
FROM information_schema.processlist
WHERE db = 'replayer' AND id <> CONNECTION_ID()
