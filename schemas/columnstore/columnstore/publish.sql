-- The segments of whole doublings.
SET @replayer_statement = (
    SELECT CONCAT(
        'CREATE OR REPLACE SQL SECURITY INVOKER VIEW persons1 AS ',
        GROUP_CONCAT('SELECT id, lastname, `time` FROM persons1_s', segment
                     ORDER BY segment SEPARATOR ' UNION ALL ')
    )
    FROM persons1_segments
    WHERE doubling <= {{doubling}}
)
-- then
PREPARE replayer_statement FROM @replayer_statement
-- then
EXECUTE replayer_statement
-- then
DEALLOCATE PREPARE replayer_statement
