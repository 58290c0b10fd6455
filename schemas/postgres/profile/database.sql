-- What all databases of the server have done, as totals.
SELECT extract(epoch FROM pg_postmaster_start_time())::text AS started,
       concat_ws(' ', max(stats_reset), sum(datid::bigint)) AS resets,
       sum(xact_commit)::float8 AS commits,
       sum(xact_rollback)::float8 AS rollbacks,
       sum(blks_hit)::float8 AS blocks_hit,
       sum(blks_read)::float8 AS blocks_read,
       sum(temp_bytes)::float8 / 1e6 AS temp_mbps,
       sum(tup_returned)::float8 AS tuples_returned,
       sum(tup_fetched)::float8 AS tuples_fetched,
       sum(tup_inserted)::float8 AS tuples_inserted,
       sum(tup_updated)::float8 AS tuples_updated,
       sum(tup_deleted)::float8 AS tuples_deleted,
       sum(deadlocks)::float8 AS deadlocks
FROM pg_stat_database
