-- Buffers of the table in shared buffers that the disk does not have yet.
-- include parts/relations
-- include parts/nodes
-- IN within an aggregate's filter is looked up in a hash table; as a join it was planned as a nested
-- loop of all buffers with all files, which took half a minute.
SELECT count(*) FILTER (WHERE b.relfilenode IN (SELECT node FROM nodes)) AS dirty
FROM {{schema}}.pg_buffercache AS b
WHERE b.isdirty
  AND b.reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
