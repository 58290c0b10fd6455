-- Blocks that parallel and autovacuum workers have found and missed so far, in the whole server: what one
-- of them has counted for itself is gone when it ends.  Then the same of everything in this database, and
-- how many parallel workers its queries have started.
SELECT coalesce(sum(io.hits) FILTER (WHERE io.backend_type = 'background worker'), 0)::bigint
           AS parallel_hits,
       (coalesce(sum(io.read_bytes) FILTER (WHERE io.backend_type = 'background worker'), 0)
           / current_setting('block_size')::bigint)::bigint AS parallel_reads,
       coalesce(sum(io.hits) FILTER (WHERE io.backend_type = 'autovacuum worker'), 0)::bigint
           AS vacuum_hits,
       (coalesce(sum(io.read_bytes) FILTER (WHERE io.backend_type = 'autovacuum worker'), 0)
           / current_setting('block_size')::bigint)::bigint AS vacuum_reads,
       d.blks_hit AS hits,
       d.blks_read AS reads,
       d.parallel_workers_launched AS launched
FROM pg_stat_database AS d
CROSS JOIN pg_stat_io AS io
WHERE d.datname = current_database()
  AND io.object = 'relation'
GROUP BY d.blks_hit, d.blks_read, d.parallel_workers_launched
