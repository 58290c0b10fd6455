-- What is committed and not in the file is in the log, which a checkpoint removes.
SELECT CAST(CASE WHEN wal_size = '0 bytes' THEN 0 ELSE 1 END AS BIGINT) AS dirty
FROM pragma_database_size()
