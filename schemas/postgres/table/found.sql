-- Every relation in replayer's schema that has a name of the table, and whether replayer made it.
SELECT c.relname AS name,
       EXISTS (SELECT FROM replayer_owned AS o WHERE o.name = 'persons1' AND o.kind = 'table') AS ours
FROM pg_class AS c
WHERE c.relnamespace = to_regnamespace(current_schema())
  AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND c.relname ~ '^persons1(_|$)'
ORDER BY c.relname
