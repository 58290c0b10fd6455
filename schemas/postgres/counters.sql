-- The server's clock and its cumulative block counters, in one row, so that both have one window.
-- hits: blocks found in shared buffers; reads: blocks that were not, wherever they came from then.
SELECT extract(epoch FROM clock_timestamp())::float8 AS clock,
       blks_hit AS hits,
       blks_read AS reads
FROM pg_stat_database
WHERE datname = current_database()
