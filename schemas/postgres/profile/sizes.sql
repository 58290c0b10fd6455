SELECT sum(pg_database_size(oid))::float8 AS database_bytes
FROM pg_database
WHERE has_database_privilege(oid, 'CONNECT') OR pg_has_role('pg_read_all_stats', 'USAGE')
