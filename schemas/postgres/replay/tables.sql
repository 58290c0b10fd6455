-- How many relations and functions of somebody else's the database has.
SELECT (
    SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname NOT IN ('information_schema', 'replayer') AND n.nspname NOT LIKE 'pg\_%'
      AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
) AS objects
