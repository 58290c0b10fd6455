-- A row if there is a database `replayer`: whether replayer made it, or it is empty.
SELECT countIf(t.name != '') = 0 OR countIf(t.name IN ('replayer_owned', 'replayer_lock')) > 0 AS ours
FROM system.databases AS d
LEFT JOIN system.tables AS t ON t.database = d.name
WHERE d.name = 'replayer'
GROUP BY d.name
