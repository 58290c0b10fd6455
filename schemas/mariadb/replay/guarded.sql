-- Columns of unique indexes; '' stands for a table whose changes may have effects elsewhere.
SELECT table_name AS table_name, coalesce(column_name, '') AS column_name
FROM information_schema.statistics
WHERE non_unique = 0 AND table_schema NOT IN ('mysql', 'sys', 'performance_schema')
UNION ALL
SELECT event_object_table, '' FROM information_schema.triggers
WHERE trigger_schema NOT IN ('mysql', 'sys', 'performance_schema')
UNION ALL
SELECT table_name, '' FROM information_schema.views
WHERE table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema')
UNION ALL
-- A change of another column changes these.
SELECT c.table_name, ''
FROM information_schema.columns AS c
JOIN information_schema.statistics AS s USING (table_schema, table_name, column_name)
WHERE s.non_unique = 0
    AND (coalesce(c.generation_expression, '') <> '' OR c.extra LIKE '%on update%')
UNION ALL
SELECT table_name, '' FROM information_schema.key_column_usage
WHERE referenced_table_name = table_name AND referenced_table_schema = table_schema
UNION ALL
-- Without this privilege the triggers of a table are not shown.
SELECT t.table_name, '' FROM information_schema.tables AS t
WHERE t.table_type = 'BASE TABLE'
    AND t.table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema')
    AND NOT EXISTS (
        SELECT 1 FROM information_schema.user_privileges AS p
        WHERE p.privilege_type = 'TRIGGER'
            AND p.grantee = concat('\'', replace(current_user(), '@', '\'@\''), '\'')
    )
    AND NOT EXISTS (
        SELECT 1 FROM information_schema.schema_privileges AS p
        WHERE p.privilege_type = 'TRIGGER' AND t.table_schema LIKE p.table_schema
            AND p.grantee = concat('\'', replace(current_user(), '@', '\'@\''), '\'')
    )
