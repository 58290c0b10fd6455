-- A row if there is a database `replayer`: whether replayer made it, or it is empty.
SELECT COUNT(t.table_name) = 0
       OR COALESCE(SUM(t.table_name = 'replayer_owned'), 0) > 0 AS ours
FROM information_schema.schemata AS s
LEFT JOIN information_schema.tables AS t ON t.table_schema = s.schema_name
WHERE s.schema_name = 'replayer'
GROUP BY s.schema_name
