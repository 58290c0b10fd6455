-- Columns of unique indexes; '' stands for a table whose changes may have effects elsewhere.
SELECT c.relname AS table_name, a.attname AS column_name
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indrelid
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
WHERE (i.indisunique OR i.indisexclusion) AND c.oid >= 16384
UNION ALL
SELECT c.relname, ''
FROM pg_class AS c
WHERE c.oid >= 16384 AND (
    c.relkind NOT IN ('r', 'i', 't', 'S', 'I')
    OR EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
    OR EXISTS (SELECT FROM pg_rewrite AS r WHERE r.ev_class = c.oid)
    OR c.relhassubclass OR c.relrowsecurity
    OR EXISTS (SELECT FROM pg_constraint AS f WHERE f.conrelid = c.oid AND f.confrelid = c.oid)
    OR EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND 0 = ANY (i.indkey))
    -- A change of another column moves a row into such an index, or within it.
    OR EXISTS (
        SELECT FROM pg_index AS i
        WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion) AND (
            i.indpred IS NOT NULL
            OR EXISTS (
                SELECT FROM pg_attribute AS a
                WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey) AND a.attgenerated <> ''
            )
        )
    )
)
