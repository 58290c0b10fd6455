-- Keeps other replayers out for as long as this connection lives: one name for the whole server.
SELECT GET_LOCK('replayer', 0) AS locked
