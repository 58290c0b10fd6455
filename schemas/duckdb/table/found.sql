-- Every table that has a name of persons1, and whether replayer made it.
SELECT t.table_name AS name,
       EXISTS (SELECT 1 FROM replayer_owned AS o WHERE o.name = 'persons1' AND o.kind = 'table') AS ours
FROM duckdb_tables() AS t
WHERE t.table_name = 'persons1' OR starts_with(t.table_name, 'persons1_')
ORDER BY t.table_name
