-- What the sessions of this database that have a statement under way wait for, and how many of them;
-- CPU is no wait.
SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU') AS wait, count(*) AS sessions
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
  AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Client'
GROUP BY 1
