-- What a log must have to be replayed: each setting with its value, the one that is wanted, and what for.
-- general_log comes last: once it is on, all is logged.
SELECT 'log_output' AS name, @@log_output AS value, 'server' AS source,
       CASE WHEN FIND_IN_SET('FILE', @@log_output) THEN @@log_output
            WHEN FIND_IN_SET('TABLE', @@log_output) THEN 'FILE,TABLE' ELSE 'FILE' END AS wanted,
       'into a file' AS why
UNION ALL
SELECT 'general_log', IF(@@general_log, 'ON', 'OFF'), 'server', 'ON',
       'every statement and session, also of sessions that are there already'
