-- What a change of a table does to others and to its keys: 'none' stands for a table whose new rows
-- can come in any order, as it has no unique index.
SELECT t.table_name AS table_name, 'none' AS effect, '' AS affected
FROM information_schema.tables AS t
WHERE t.table_type = 'BASE TABLE'
    AND t.table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema')
    AND NOT EXISTS (
        SELECT 1 FROM information_schema.statistics AS s
        WHERE s.table_schema = t.table_schema AND s.table_name = t.table_name AND s.non_unique = 0
    )
    AND NOT EXISTS (
        SELECT 1 FROM information_schema.columns AS c
        WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name
            AND (c.extra LIKE '%auto_increment%')
    )
UNION ALL
SELECT DISTINCT table_name, 'sequence', '' FROM information_schema.columns
WHERE table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema')
    AND (extra LIKE '%auto_increment%')
UNION ALL
SELECT DISTINCT event_object_table, 'trigger', '' FROM information_schema.triggers
WHERE trigger_schema NOT IN ('mysql', 'sys', 'performance_schema')
UNION ALL
SELECT referenced_table_name, 'foreign key', table_name
FROM information_schema.referential_constraints
WHERE delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
    OR update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
