SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       sum(xact_commit + xact_rollback)::float8 AS transactions,
       NULL::float8 AS statements,
       NULL::float8 AS bytes
FROM pg_stat_database
