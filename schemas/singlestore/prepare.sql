-- Everything that replayer makes lies in this database, and what it made is listed in replayer_owned.
CREATE DATABASE IF NOT EXISTS replayer
-- then
CREATE TABLE IF NOT EXISTS replayer.replayer_owned (
    name    VARCHAR(64) NOT NULL,
    kind    VARCHAR(64) NOT NULL,
    made_by VARCHAR(255) NOT NULL,
    PRIMARY KEY (name)
)
-- then
-- Waits until no merger works on the table's segments: it would replace files under a walk.
CREATE OR REPLACE PROCEDURE replayer.replayer_merged() AS
DECLARE
    busy BIGINT = 1;
    slept BIGINT = 0;
    tries BIGINT = 600;
BEGIN
    WHILE busy > 0 AND tries > 0 LOOP
        SELECT COUNT(*) INTO busy
        FROM information_schema.mv_columnstore_merge_status
        WHERE database_name = 'replayer' AND state IS NOT NULL AND state <> 'Idle';
        IF busy > 0 THEN
            SELECT SLEEP(1) INTO slept;
        END IF;
        tries -= 1;
    END LOOP;
END
-- then
-- Waits until every statement that was executed is compiled.
CREATE OR REPLACE PROCEDURE replayer.replayer_compiled() AS
DECLARE
    busy BIGINT = 1;
    slept BIGINT = 0;
    tries BIGINT = 600;
BEGIN
    WHILE busy > 0 AND tries > 0 LOOP
        SELECT COALESCE(SUM(variable_value), 0) INTO busy
        FROM information_schema.mv_global_status
        WHERE variable_name = 'Inflight_async_compilations';
        IF busy > 0 THEN
            SELECT SLEEP(1) INTO slept;
        END IF;
        tries -= 1;
    END LOOP;
END
