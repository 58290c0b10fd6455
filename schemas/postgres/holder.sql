-- Who holds the lock, of this database's first; what this user may not see of a session is NULL.
SELECT l.pid AS session,
       a.application_name AS name,
       a.usename::text AS account,
       host(a.client_addr) AS address,
       to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') AS since,
       extract(epoch FROM clock_timestamp() - a.state_change)::float8 AS heard
FROM pg_locks AS l
LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.classid = 1919250540
  AND l.objid IN (1634302322, 1634302323)
  AND l.granted AND l.pid <> pg_backend_pid()
ORDER BY l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) DESC
LIMIT 1
