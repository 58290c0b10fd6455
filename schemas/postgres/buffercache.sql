-- Where the view that lists all buffers is, if it was created, and whether we may read it.
SELECT n.nspname AS schema, has_table_privilege(c.oid, 'SELECT') AS allowed
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname = 'pg_buffercache' AND c.relkind = 'v'
