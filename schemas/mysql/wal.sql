-- Bytes of redo log that the server has written since its start; only differences mean something.
SELECT CAST(variable_value AS SIGNED) AS bytes
FROM performance_schema.global_status
WHERE variable_name = 'Innodb_os_log_written'
