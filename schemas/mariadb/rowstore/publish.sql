-- The view shows the segments of whole doublings only: the new ones appear when the doubling is
-- marked as complete, all at once.  The first segment alone needs no new view when it has grown.
SET @replayer_statement = (
    SELECT IF(COUNT(*) = 1 AND {{doubling}} > 0, 'DO 0', CONCAT(
        'CREATE OR REPLACE SQL SECURITY INVOKER VIEW persons1 AS ',
        GROUP_CONCAT('SELECT id, lastname, `time` FROM persons1_s', segment,
                     ' WHERE EXISTS (SELECT 1 FROM persons1_segments AS s JOIN persons1_doublings AS d',
                     ' ON d.doubling = s.doubling AND d.`rows` IS NOT NULL',
                     ' WHERE s.segment = ', segment, ')'
                     ORDER BY segment SEPARATOR ' UNION ALL ')
    ))
    FROM persons1_segments
    WHERE doubling <= {{doubling}}
)
-- then
PREPARE replayer_statement FROM @replayer_statement
-- then
EXECUTE replayer_statement
-- then
DROP PREPARE replayer_statement
