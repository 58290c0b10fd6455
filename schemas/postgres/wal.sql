-- Bytes of WAL that the server has written since it was made; only differences mean something.
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS bytes
