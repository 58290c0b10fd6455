-- What lies in replayer's schema beside its list: once all that it made is gone, somebody else's.
SELECT c.relname::text AS name
FROM pg_class AS c
WHERE c.relnamespace = to_regnamespace('replayer')
  AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
  AND c.relname <> 'replayer_owned'
  AND NOT EXISTS (
      SELECT FROM pg_depend AS d
      WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
  )
UNION ALL
SELECT p.proname::text
FROM pg_proc AS p
WHERE p.pronamespace = to_regnamespace('replayer')
  AND NOT EXISTS (
      SELECT FROM pg_depend AS d
      WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  )
ORDER BY name
