-- Cumulative counts of the whole server.
SELECT CAST(SUM(IF(variable_name = 'HANDLER_COMMIT', variable_value, 0)) AS SIGNED) AS commits,
       CAST(SUM(IF(variable_name = 'INNODB_OS_LOG_WRITTEN', variable_value, 0)) AS SIGNED) AS wal_bytes,
       CAST(SUM(IF(variable_name = 'INNODB_OS_LOG_FSYNCS', variable_value, NULL)) AS SIGNED) AS wal_flushes,
       CAST(SUM(IF(variable_name = 'INNODB_ROW_LOCK_WAITS', variable_value, 0)) AS SIGNED) AS lock_waits,
       CAST(SUM(IF(variable_name = 'INNODB_DEADLOCKS', variable_value, 0)) AS SIGNED) AS deadlocks,
       CAST(NULL AS SIGNED) AS temp_bytes
-- include parts/status
