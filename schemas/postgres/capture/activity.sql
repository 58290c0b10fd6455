-- What each client did last: whose, since when, and how long its text is.
SELECT pid, query_start::text AS began, octet_length(query)::float8 AS bytes
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND query_start IS NOT NULL AND query <> '<insufficient privilege>'
