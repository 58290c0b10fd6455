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
-- Everything that replayer makes lies in this schema, and what it made is listed in replayer_owned.
CREATE SCHEMA IF NOT EXISTS replayer
-- then
CREATE TABLE IF NOT EXISTS replayer.replayer_owned (
    name    text PRIMARY KEY,
    kind    text NOT NULL,
    made_by text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
)
-- then
-- The extensions are proof and warm-up; a server without them, or a user without the right, goes on.
DO $$
DECLARE
    wanted text;
BEGIN
    FOR wanted IN
        SELECT name FROM pg_available_extensions
        WHERE name IN ('pg_buffercache', 'pg_prewarm') AND installed_version IS NULL
    LOOP
        BEGIN
            EXECUTE format('CREATE EXTENSION %I SCHEMA replayer', wanted);
        EXCEPTION WHEN insufficient_privilege OR undefined_file OR feature_not_supported THEN
            NULL;
        END;
    END LOOP;
END
$$
