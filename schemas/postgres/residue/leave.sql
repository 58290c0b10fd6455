-- The list, the extensions that were made in the schema, the schema: all of them or, where somebody
-- else has put anything into it or makes use of it, none.
DO $$
DECLARE
    made text;
BEGIN
    FOR made IN
        SELECT extname FROM pg_extension WHERE extnamespace = to_regnamespace('replayer')
    LOOP
        EXECUTE format('DROP EXTENSION %I', made);
    END LOOP;
    DROP TABLE replayer.replayer_owned;
    DROP SCHEMA replayer;
END
$$
