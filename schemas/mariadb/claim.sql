-- A row if there is a database `replayer`: whether replayer made it, or it is empty.
SELECT EXISTS (
           SELECT 1 FROM information_schema.tables AS t
           WHERE t.table_schema = 'replayer' AND t.table_name = 'replayer_owned'
       ) OR NOT EXISTS (
           SELECT 1 FROM information_schema.tables AS t WHERE t.table_schema = 'replayer'
       ) AS ours
FROM information_schema.schemata
WHERE schema_name = 'replayer'
