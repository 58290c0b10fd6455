-- Without the texts, which lie in a file.
SELECT sum(calls)::float8 AS statements
FROM {{schema}}.pg_stat_statements(false)
