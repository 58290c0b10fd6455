-- Every table of this database that has a name of ours, and whether replayer made it.
SELECT t.table_name AS name, o.name IS NOT NULL AS ours, COALESCE(o.made_by, '') AS made_as
FROM information_schema.tables AS t
LEFT JOIN replayer_owned AS o ON o.name = t.table_name AND o.kind = 'slob'
WHERE t.table_schema = 'replayer' AND t.table_name RLIKE '^pgio[0-9]+$'
