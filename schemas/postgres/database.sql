-- The database of a private server; `prepare` follows, connected to it.
CREATE DATABASE replayer
-- then
ALTER DATABASE replayer SET search_path = replayer, public
