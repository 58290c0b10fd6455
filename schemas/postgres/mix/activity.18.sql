SELECT xact_commit AS commits,
       pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS wal_bytes,
       (SELECT sum(fsyncs)::bigint FROM pg_stat_io WHERE object = 'wal') AS wal_flushes,
       CAST(NULL AS bigint) AS lock_waits,
       deadlocks,
       temp_bytes
FROM pg_stat_database
WHERE datname = current_database()
