-- Columnar tables are an extension that Citus 13.2 and later do not create by themselves.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citus_columnar') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = 'this server does not have the extension citus_columnar: use a server that '
                      'Citus is installed in, with --pg-bindir or by its URL';
    END IF;
    CREATE EXTENSION IF NOT EXISTS citus_columnar;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION USING
        ERRCODE = 'insufficient_privilege',
        MESSAGE = 'this user may not create the extension citus_columnar: have a superuser execute '
                  'CREATE EXTENSION citus_columnar in this database';
END
$$
-- then
-- include prepare
