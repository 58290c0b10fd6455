-- What sessions wait for, as the server calls it and as a part of an account, and which they are; ''
-- is no wait, `own` is this session, and `named` are those of a step that names its sessions.  The
-- view pg_stat_activity joins two more relations, which takes as long again.
SELECT CASE WHEN hidden THEN 'hidden from this user' ELSE coalesce(kind || ':' || event, '') END AS wait,
       CASE WHEN own THEN 'own'
            WHEN kind IS NULL THEN ''
            WHEN kind = 'Client' THEN 'client'
            WHEN kind IN ('IO', 'LWLock') AND event ILIKE 'wal%' AND event NOT ILIKE 'walinsert%'
                OR event = 'SyncRep' THEN 'log'
            WHEN kind = 'IO' OR event ILIKE 'bufferio' OR event ILIKE 'aioio%' THEN 'device'
            WHEN kind IN ('Lock', 'LWLock', 'BufferPin', 'Buffer', 'IPC') OR event = 'SpinDelay' THEN 'lock'
            ELSE 'other' END AS part,
       named,
       string_agg(pid::text, ' ') AS sessions
FROM (
    SELECT pid, wait_event_type AS kind, wait_event AS event, state IS NULL AS hidden,
           application_name LIKE 'replayer session %' AS named, pid = pg_backend_pid() AS own
    FROM pg_stat_get_activity(NULL)
    WHERE datid IN (SELECT oid FROM pg_database WHERE datname = current_database() OR datname LIKE 'replayer%')
      AND backend_type = 'client backend'
) AS watched
GROUP BY 1, 2, 3
