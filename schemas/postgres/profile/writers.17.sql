SELECT concat_ws(' ', c.stats_reset, b.stats_reset, io.stats_reset) AS resets,
       c.buffers_written::float8 AS blocks_written_by_checkpointer,
       b.buffers_clean::float8 AS blocks_written_by_bgwriter,
       io.writes AS blocks_written_by_backends,
       (c.num_timed + c.num_requested)::float8 AS checkpoints
FROM pg_stat_checkpointer AS c
CROSS JOIN pg_stat_bgwriter AS b
CROSS JOIN (
    SELECT max(stats_reset) AS stats_reset, sum(writes)::float8 AS writes
    FROM pg_stat_io
    WHERE backend_type NOT IN ('checkpointer', 'background writer') AND object = 'relation'
) AS io
