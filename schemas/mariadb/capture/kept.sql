-- What is set now, which lasts until the server is stopped.
SELECT 'log_output' AS name, @@log_output AS value
UNION ALL
SELECT 'general_log', IF(@@general_log, 'ON', 'OFF')
