-- Bytes of the table and of the catalogue beside it in shared buffers.
-- include parts/relations
-- include parts/nodes
-- IN within an aggregate's filter is looked up in a hash table, see `dirty`.
SELECT count(*) FILTER (WHERE b.relfilenode IN (SELECT node FROM nodes))
           * current_setting('block_size')::bigint AS bytes
FROM {{schema}}.pg_buffercache AS b
WHERE b.reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
