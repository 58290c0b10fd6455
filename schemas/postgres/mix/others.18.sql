-- Blocks that each session of this database has missed and found so far; from 18 on they are counted for
-- each.  io.reads would count operations, of up to 16 blocks each.  "ours" are those that replayer has
-- named.  "quiet" is for how many seconds it has done nothing, null while it works and if that is hidden;
-- it may have an open transaction all the same.
-- Without pg_read_all_stats the type, the state and the begin of another role's session are null.
SELECT a.pid,
       extract(epoch FROM a.backend_start)::float8 AS began,
       coalesce(sum(io.hits), 0)::bigint AS hits,
       (coalesce(sum(io.read_bytes), 0) / current_setting('block_size')::bigint)::bigint AS reads,
       CASE WHEN a.state LIKE 'idle%'
            THEN extract(epoch FROM clock_timestamp() - coalesce(a.state_change, 'epoch'))::float8
       END AS quiet,
       coalesce(a.state LIKE 'idle in transaction%', false) AS in_transaction,
       coalesce(a.application_name LIKE 'replayer session %', false) AS ours
FROM pg_stat_activity AS a
CROSS JOIN LATERAL pg_stat_get_backend_io(a.pid) AS io
WHERE a.datname = current_database()
  AND coalesce(a.backend_type, 'client backend') = 'client backend'
  AND a.usesysid IS NOT NULL
GROUP BY a.pid, a.backend_start, a.state, a.state_change, a.application_name
