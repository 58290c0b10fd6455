-- Write every dirty page of the buffer pool and move the checkpoint to the end of the log: with
-- innodb_log_checkpoint_now where the server has it (MariaDB; debug builds of MySQL), else by allowing
-- no dirty pages until none is left, for at most ten minutes.
DROP PROCEDURE IF EXISTS replayer_flush
-- then
CREATE PROCEDURE replayer_flush()
BEGIN
    DECLARE allowed double DEFAULT @@GLOBAL.innodb_max_dirty_pages_pct;
    DECLARE tries int DEFAULT 6000;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        SET GLOBAL innodb_max_dirty_pages_pct = allowed;
        RESIGNAL;
    END;
    IF EXISTS (
        SELECT 1
        -- include parts/variables
        WHERE variable_name = 'INNODB_LOG_CHECKPOINT_NOW'
    ) THEN
        SET @replayer_statement = 'SET GLOBAL innodb_log_checkpoint_now = ON';
        PREPARE replayer_statement FROM @replayer_statement;
        EXECUTE replayer_statement;
        DEALLOCATE PREPARE replayer_statement;
    ELSE
        SET GLOBAL innodb_max_dirty_pages_pct = 0;
        WHILE tries > 0 AND (
            SELECT variable_value > 0
            -- include parts/status
            WHERE variable_name = 'INNODB_BUFFER_POOL_PAGES_DIRTY'
        ) DO
            DO SLEEP(0.1);
            SET tries = tries - 1;
        END WHILE;
        SET GLOBAL innodb_max_dirty_pages_pct = allowed;
    END IF;
END
-- then
CALL replayer_flush()
-- then
DROP PROCEDURE replayer_flush
