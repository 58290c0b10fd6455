-- What the clients are doing; without the right to see it nothing is known, which is not 0.
SELECT CASE WHEN seen THEN sessions END AS sessions,
       CASE WHEN seen THEN active END AS sessions_active,
       CASE WHEN seen THEN idle_in_transaction END AS sessions_idle_in_transaction,
       CASE WHEN seen THEN waiting END AS sessions_waiting,
       CASE WHEN seen THEN io END AS sessions_waiting_io,
       CASE WHEN seen THEN client_lock END AS sessions_waiting_lock,
       CASE WHEN seen THEN lwlock END AS sessions_waiting_lwlock,
       CASE WHEN seen THEN any_lock END AS lock_waits
FROM (
    SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS seen,
           count(*) FILTER (WHERE client) AS sessions,
           count(*) FILTER (WHERE active) AS active,
           count(*) FILTER (WHERE client AND state LIKE 'idle in transaction%') AS idle_in_transaction,
           count(*) FILTER (WHERE active AND wait IN ('IO', 'Lock', 'LWLock', 'BufferPin', 'IPC')) AS waiting,
           count(*) FILTER (WHERE active AND wait = 'IO') AS io,
           count(*) FILTER (WHERE active AND wait = 'Lock') AS client_lock,
           count(*) FILTER (WHERE active AND wait = 'LWLock') AS lwlock,
           count(*) FILTER (WHERE wait = 'Lock') AS any_lock
    FROM (
        SELECT backend_type = 'client backend' AS client,
               backend_type = 'client backend' AND state IN ('active', 'fastpath function call') AS active,
               state,
               wait_event_type AS wait
        FROM pg_stat_get_activity(NULL)
        WHERE pid <> pg_backend_pid()
    ) AS one
) AS counted
