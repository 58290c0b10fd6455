-- Bytes of redo log that the server has written since its start; only differences mean something.
SELECT CAST(variable_value AS SIGNED) AS bytes
-- include parts/status
WHERE variable_name = 'INNODB_OS_LOG_WRITTEN'
