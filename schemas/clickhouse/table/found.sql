-- Every table that has a name of persons1, and whether replayer made it.  A catalogue that was never
-- finished, or that a removal left, is made anew: it is not shown.
WITH (SELECT count() FROM replayer_owned WHERE name = 'persons1' AND kind = 'table') AS owned,
     (SELECT count() FROM system.tables WHERE database = 'replayer' AND name = 'persons1_build') AS built
SELECT name, owned > 0 AS ours
FROM system.tables
WHERE database = 'replayer' AND (name = 'persons1' OR startsWith(name, 'persons1_'))
  AND (owned = 0 OR built > 0)
ORDER BY name
