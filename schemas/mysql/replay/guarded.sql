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
