SELECT stats_reset::text AS resets,
       wal_bytes::float8 / 1e6 AS wal_mbps,
       wal_records::float8 AS wal_records,
       wal_fpi::float8 AS wal_full_pages,
       wal_write::float8 AS wal_writes,
       wal_sync::float8 AS wal_syncs
FROM pg_stat_wal
