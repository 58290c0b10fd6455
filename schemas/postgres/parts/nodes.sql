-- The same with their indexes, by the numbers that buffers name them with.
, nodes AS (
    SELECT pg_relation_filenode(r.oid) AS node FROM relations AS r
    UNION ALL
    SELECT pg_relation_filenode(i.indexrelid)
    FROM pg_index AS i
    JOIN relations AS r ON r.oid = i.indrelid
)
