-- Keeps other replayers out for as long as this connection lives: one name for the whole server.
-- The server asks nobody whether he is there, so it ends a session of which it hears nothing for a
-- minute; replayer says something every ten seconds.
SET SESSION wait_timeout = 60
-- then
SELECT GET_LOCK('replayer', 0) AS locked
