-- Buffers of the table in shared buffers, and how many of them the disk does not have yet.
WITH tables AS (
    SELECT c.oid, c.reltoastrelid
    FROM pg_class AS c
    WHERE c.relnamespace = to_regnamespace(current_schema())
      AND c.relkind = 'r'
      AND c.relname ~ '^persons1(_|$)'
),
relations AS (
    SELECT oid FROM tables
    UNION ALL
    SELECT reltoastrelid FROM tables WHERE reltoastrelid <> 0
),
nodes AS (
    SELECT pg_relation_filenode(r.oid) AS node FROM relations AS r
    UNION ALL
    SELECT pg_relation_filenode(i.indexrelid)
    FROM pg_index AS i
    JOIN relations AS r ON r.oid = i.indrelid
)
SELECT count(*) AS buffers, count(*) FILTER (WHERE b.isdirty) AS dirty
FROM {{schema}}.pg_buffercache AS b
JOIN nodes AS n ON n.node = b.relfilenode
WHERE b.reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
