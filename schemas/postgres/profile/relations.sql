-- Tables, their indexes and their TOAST in this database, those first that are read most, as totals.
-- Sizes are as of the last vacuum, which takes neither a lock nor a look at a file.
SELECT c.oid::text AS relation,
       n.nspname || '.' || t.relname AS name,
       c.relkind = 'r' AS heap,
       greatest(c.relpages, 0)::float8 * current_setting('block_size')::float8 AS bytes,
       greatest(c.reltuples, 0)::float8 AS tuples,
       pg_stat_get_blocks_hit(c.oid)::float8 AS blocks_hit,
       (pg_stat_get_blocks_fetched(c.oid) - pg_stat_get_blocks_hit(c.oid))::float8 AS blocks_read,
       CASE WHEN c.relkind IN ('r', 'm') THEN pg_stat_get_tuples_returned(c.oid) ELSE 0 END::float8 AS tuples_scanned,
       (pg_stat_get_tuples_returned(c.oid) + pg_stat_get_tuples_fetched(c.oid))::float8 AS tuples_read,
       (pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid)
           + pg_stat_get_tuples_deleted(c.oid))::float8 AS tuples_written
FROM pg_class AS c
LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
LEFT JOIN pg_class AS heap ON heap.reltoastrelid = coalesce(i.indrelid, c.oid) AND heap.reltoastrelid <> 0
JOIN pg_class AS t ON t.oid = coalesce(heap.oid, i.indrelid, c.oid)
JOIN pg_namespace AS n ON n.oid = t.relnamespace
WHERE c.relkind IN ('r', 'm', 'i', 't')
  AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND pg_stat_get_blocks_fetched(c.oid) > 0
ORDER BY pg_stat_get_blocks_fetched(c.oid) DESC
LIMIT 1000
