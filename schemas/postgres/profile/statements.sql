-- Only the first word of a text is looked at, and none leaves the server.
SELECT CASE WHEN word IN ('select', 'with', 'values', 'table', 'fetch') THEN 'select'
            WHEN word IN ('insert', 'copy') THEN 'insert'
            WHEN word IN ('update', 'merge') THEN 'update'
            WHEN word = 'delete' THEN 'delete'
            ELSE 'other' END AS kind,
       sum(calls)::float8 AS calls,
       sum(rows)::float8 AS rows,
       sum(total_exec_time)::float8 / 1000 AS seconds,
       sum(shared_blks_hit)::float8 AS blocks_hit,
       sum(shared_blks_read)::float8 AS blocks_read,
       sum(wal_bytes)::float8 AS wal_bytes
FROM (
    SELECT *, lower(substring(query FROM '^(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(\w+)')) AS word
    FROM {{schema}}.pg_stat_statements(true)
) AS known
GROUP BY 1
