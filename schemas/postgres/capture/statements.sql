-- Statements so far, and the bytes of their texts: texts are without values, parameters come on top.
SELECT sum(calls)::float8 AS statements,
       sum(calls * octet_length(query))::float8 AS bytes
FROM {{schema}}.pg_stat_statements(true)
