-- What may be on another disk than the data: in words, and where it is, from the data directory on.
SELECT 'the log' AS what, 'pg_wal' AS path
UNION ALL
SELECT format('tablespace %I', spcname), pg_tablespace_location(oid)
FROM pg_tablespace
WHERE pg_tablespace_location(oid) <> ''
