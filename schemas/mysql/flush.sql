-- Write every dirty page of the buffer pool: with innodb_log_checkpoint_now where the server has it
-- (debug builds), else by allowing no dirty pages until none is left, for at most ten minutes.
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
        SELECT 1 FROM performance_schema.global_variables
        WHERE variable_name = 'innodb_log_checkpoint_now'
    ) THEN
        SET @replayer_statement = 'SET GLOBAL innodb_log_checkpoint_now = ON';
        PREPARE replayer_statement FROM @replayer_statement;
        EXECUTE replayer_statement;
        DEALLOCATE PREPARE replayer_statement;
    ELSE
        SET GLOBAL innodb_max_dirty_pages_pct = 0;
        WHILE tries > 0 AND (
            SELECT variable_value > 0 FROM performance_schema.global_status
            WHERE variable_name = 'Innodb_buffer_pool_pages_dirty'
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
