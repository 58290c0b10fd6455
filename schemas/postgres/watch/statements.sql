-- What each statement of this database, and of others of replayer's, has cost so far; the extension may lie in any schema,
-- and is of use where the server has loaded its library.
SELECT set_config('search_path', 'pg_catalog, ' || quote_ident(n.nspname), false)
FROM pg_extension AS e
JOIN pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_stat_statements'
  AND EXISTS (SELECT FROM pg_settings WHERE name = 'pg_stat_statements.max')
-- then
SELECT queryid::text AS id, left(regexp_replace(query, '\s+', ' ', 'g'), 200) AS statement,
       sum(calls)::float8 AS calls, sum(total_exec_time)::float8 / 1000 AS seconds, sum(rows)::float8 AS rows,
       sum(shared_blks_hit)::float8 AS blocks_hit, sum(shared_blks_read)::float8 AS blocks_read,
       sum(shared_blks_dirtied)::float8 AS blocks_dirtied, sum(wal_bytes)::float8 AS wal_bytes,
       sum(temp_blks_read + temp_blks_written)::float8 AS temp_blocks
FROM pg_stat_statements
WHERE dbid IN (SELECT oid FROM pg_database WHERE datname = current_database() OR datname LIKE 'replayer%')
  AND query ~* '^\s*(select|insert|update|delete|merge|with|call|begin|commit|end|fetch|copy)\M'
GROUP BY 1, 2
