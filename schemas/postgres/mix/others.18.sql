-- Blocks that each session of somebody else's in this database has missed and found so far; from 18 on
-- they are counted for each.  io.reads would count operations, of up to 16 blocks each.  "quiet" is for how many seconds it has done nothing, null while it
-- works; it may have an open transaction all the same.
SELECT a.pid,
       extract(epoch FROM a.backend_start)::float8 AS began,
       coalesce(sum(io.hits), 0)::bigint AS hits,
       (coalesce(sum(io.read_bytes), 0) / current_setting('block_size')::bigint)::bigint AS reads,
       CASE WHEN coalesce(a.state, 'idle') LIKE 'idle%'
            THEN extract(epoch FROM clock_timestamp() - coalesce(a.state_change, 'epoch'))::float8
       END AS quiet,
       coalesce(a.state LIKE 'idle in transaction%', false) AS in_transaction
FROM pg_stat_activity AS a
CROSS JOIN LATERAL pg_stat_get_backend_io(a.pid) AS io
WHERE a.datname = current_database()
  AND a.backend_type = 'client backend'
  AND a.application_name NOT LIKE 'replayer session %'
GROUP BY a.pid, a.backend_start, a.state, a.state_change
