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
