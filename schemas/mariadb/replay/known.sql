-- A row if there is a database of that name: whether replayer made it.
SELECT EXISTS (
           SELECT 1 FROM replayer.replayer_owned AS o
           WHERE o.kind = 'database' AND o.name = s.schema_name
       ) AS ours
FROM information_schema.schemata AS s
WHERE s.schema_name = :name
