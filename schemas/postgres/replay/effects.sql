-- What a change of a table does to others and to its keys: 'none' stands for a table whose new rows
-- can come in any order, as it has no unique index.
SELECT c.relname AS table_name, 'none' AS effect, '' AS affected
FROM pg_class AS c
WHERE c.oid >= 16384 AND c.relkind = 'r'
    AND NOT EXISTS (
        SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion)
    )
    AND NOT EXISTS (SELECT FROM pg_inherits AS h WHERE h.inhrelid = c.oid)
    AND NOT EXISTS (
        SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attidentity <> ''
    )
    -- A default that takes from a sequence, or calls a function of the user's own.
    AND NOT EXISTS (
        SELECT FROM pg_attrdef AS d
        JOIN pg_depend AS n ON n.classid = 'pg_attrdef'::regclass AND n.objid = d.oid
        WHERE d.adrelid = c.oid AND n.refobjid >= 16384 AND n.refobjid <> c.oid
    )
UNION ALL
SELECT c.relname, 'sequence', ''
FROM pg_class AS c
WHERE c.oid >= 16384 AND EXISTS (
    SELECT FROM pg_attribute AS a
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = c.oid AND a.attnum > 0
        AND (a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE '%nextval(%')
)
UNION ALL
SELECT c.relname, 'trigger', ''
FROM pg_class AS c
WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p', 'v') AND (
    EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
    OR EXISTS (SELECT FROM pg_rewrite AS r WHERE r.ev_class = c.oid)
)
UNION ALL
SELECT p.relname, 'foreign key', c.relname
FROM pg_constraint AS f
JOIN pg_class AS p ON p.oid = f.confrelid
JOIN pg_class AS c ON c.oid = f.conrelid
WHERE f.contype = 'f'
    AND (f.confdeltype NOT IN ('a', 'r') OR f.confupdtype NOT IN ('a', 'r'))
UNION ALL
SELECT p.relname, 'partition', c.relname
FROM (
    WITH RECURSIVE below (root, part) AS (
        SELECT inhparent, inhrelid FROM pg_inherits
        UNION
        SELECT b.root, h.inhrelid FROM below AS b JOIN pg_inherits AS h ON h.inhparent = b.part
    )
    SELECT root, part FROM below
) AS b
JOIN pg_class AS p ON p.oid = b.root
JOIN pg_class AS c ON c.oid = b.part
WHERE p.relkind IN ('r', 'p')
