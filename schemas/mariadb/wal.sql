-- Bytes of redo log that the server has written since its start; only differences mean something.
SELECT CAST(variable_value AS SIGNED) AS bytes
FROM information_schema.global_status
WHERE variable_name = 'INNODB_OS_LOG_WRITTEN'
