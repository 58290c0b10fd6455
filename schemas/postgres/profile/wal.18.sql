-- From 18 on writes and syncs of the log are among all other I/O.
SELECT concat_ws(' ', w.stats_reset, io.stats_reset) AS resets,
       w.wal_bytes::float8 / 1e6 AS wal_mbps,
       w.wal_records::float8 AS wal_records,
       w.wal_fpi::float8 AS wal_full_pages,
       io.writes AS wal_writes,
       io.fsyncs AS wal_syncs
FROM pg_stat_wal AS w
CROSS JOIN (
    SELECT max(stats_reset) AS stats_reset, sum(writes)::float8 AS writes, sum(fsyncs)::float8 AS fsyncs
    FROM pg_stat_io
    WHERE object = 'wal' AND context = 'normal'
) AS io
