SELECT stats_reset::text AS resets,
       buffers_checkpoint::float8 AS blocks_written_by_checkpointer,
       buffers_clean::float8 AS blocks_written_by_bgwriter,
       buffers_backend::float8 AS blocks_written_by_backends,
       (checkpoints_timed + checkpoints_req)::float8 AS checkpoints
FROM pg_stat_bgwriter
