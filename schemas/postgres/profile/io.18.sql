SELECT max(stats_reset)::text AS resets,
       sum(read_bytes) FILTER (WHERE context = 'normal')::float8 / 1e6 AS io_read_client_mbps,
       sum(read_bytes) FILTER (WHERE context LIKE 'bulk%')::float8 / 1e6 AS io_read_bulk_mbps,
       sum(read_bytes) FILTER (WHERE context = 'vacuum')::float8 / 1e6 AS io_read_vacuum_mbps,
       sum(write_bytes) FILTER (WHERE client AND context <> 'vacuum')::float8 / 1e6 AS io_write_client_mbps,
       sum(write_bytes) FILTER (WHERE context = 'vacuum')::float8 / 1e6 AS io_write_vacuum_mbps,
       sum(extend_bytes)::float8 / 1e6 AS io_extend_mbps,
       sum(fsyncs)::float8 AS io_fsyncs
FROM (SELECT *, backend_type NOT IN ('checkpointer', 'background writer') AS client FROM pg_stat_io) AS io
WHERE object <> 'wal'
