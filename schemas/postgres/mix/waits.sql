-- What the sessions that have a statement under way wait for, and how many of them; CPU is no wait.
SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU') AS wait, count(*) AS sessions
FROM pg_stat_activity
WHERE application_name LIKE 'replayer session %' AND state = 'active'
  AND wait_event_type IS DISTINCT FROM 'Client'
GROUP BY 1
