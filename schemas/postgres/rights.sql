-- What needs a right that not every user has: the verb, in words, whether this user has it, and what gives it.
SELECT 'location' AS verb, 'find the server''s files' AS what,
       has_function_privilege('pg_read_file(text)', 'EXECUTE')
           AND pg_has_role('pg_read_all_settings', 'USAGE') AS allowed,
       format('GRANT pg_read_all_settings TO %1$I; GRANT EXECUTE ON FUNCTION pg_read_file(text) TO %1$I',
              current_user) AS grants
UNION ALL
SELECT 'buffercache', 'see which of its buffers are dirty', pg_has_role('pg_monitor', 'USAGE'),
       format('GRANT pg_monitor TO %I', current_user)
UNION ALL
SELECT 'mix/others', 'see when sessions of others work', pg_has_role('pg_read_all_stats', 'USAGE'),
       format('GRANT pg_read_all_stats TO %I', current_user)
WHERE current_setting('server_version_num')::int >= 180000  -- older servers do not count for each session
UNION ALL
SELECT 'flush', 'have it write everything out',
       COALESCE((SELECT pg_has_role(oid, 'USAGE') FROM pg_roles WHERE rolname = 'pg_checkpoint'),
                current_setting('is_superuser') = 'on'),
       CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_checkpoint')
            THEN format('GRANT pg_checkpoint TO %I', current_user)
            ELSE format('ALTER ROLE %I SUPERUSER', current_user) END
UNION ALL
SELECT 'prepare', 'make the schema replayer',
       has_database_privilege(current_database(), 'CREATE') OR EXISTS (
           SELECT FROM pg_namespace
           WHERE nspname = 'replayer' AND has_schema_privilege(oid, 'CREATE')
       ),
       format('GRANT CREATE ON DATABASE %I TO %I', current_database(), current_user)
