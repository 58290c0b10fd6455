-- The server's clock and its cumulative block counters, in one row, so that both have one window.
-- hits: blocks found in shared buffers; reads: blocks that were not, wherever they came from then.
-- other_databases: the same of all other databases of the server, whose reads are its processes', too.
-- other_statements: statements there that began over a second ago: a statement counts at its end.
SELECT extract(epoch FROM clock_timestamp())::float8 AS clock,
       blks_hit AS hits,
       blks_read AS reads,
       (SELECT coalesce(sum(o.blks_read), 0)
        FROM pg_stat_database AS o
        WHERE o.datname IS DISTINCT FROM current_database())::bigint AS other_databases,
       (SELECT count(*)
        FROM pg_stat_activity AS a
        WHERE a.datname <> current_database() AND a.state = 'active'
          AND a.backend_type IN ('client backend', 'autovacuum worker')
          AND a.query_start < clock_timestamp() - interval '1 second') AS other_statements
FROM pg_stat_database
WHERE datname = current_database()
