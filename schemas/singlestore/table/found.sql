-- Every table in replayer's database that has a name of persons1, and whether replayer made it.
-- A catalogue that was never finished, or that a removal left, is made anew: it is not shown.
SELECT t.table_name AS name, COUNT(o.name) > 0 AS ours
FROM information_schema.tables AS t
LEFT JOIN replayer_owned AS o ON o.name = 'persons1' AND o.kind = 'table'
LEFT JOIN information_schema.tables AS b
       ON b.table_schema = 'replayer' AND b.table_name = 'persons1_build'
WHERE t.table_schema = 'replayer'
  AND (t.table_name = 'persons1' OR t.table_name LIKE 'persons1\\_%')
  AND (o.name IS NULL OR b.table_name IS NOT NULL)
GROUP BY t.table_name
ORDER BY t.table_name
