-- Every table of this schema that has a name of ours, and whether replayer made it.
SELECT c.relname AS name,
       o.name IS NOT NULL AS ours,
       coalesce(obj_description(c.oid, 'pg_class'), '') AS made_as
FROM pg_class AS c
LEFT JOIN replayer_owned AS o ON o.name = c.relname AND o.kind = 'slob'
WHERE c.relnamespace = to_regnamespace(current_schema())
  AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND c.relname ~ '^pgio[0-9]+$'
