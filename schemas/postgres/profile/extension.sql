-- Where the functions of pg_stat_statements lie; no row where it is not in this database.
SELECT n.nspname AS schema
FROM pg_extension AS e
JOIN pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_stat_statements'
