-- The process that answers, which is not the one that took the connection where a pooler is between.
SELECT pg_backend_pid() AS process
