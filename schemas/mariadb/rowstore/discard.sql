-- The view is made without the segment first, or goes if no whole doubling is left.
SET @replayer_statement = (
    SELECT COALESCE(CONCAT(
        'CREATE OR REPLACE SQL SECURITY INVOKER VIEW persons1 AS ',
        GROUP_CONCAT('SELECT id, lastname, `time` FROM persons1_s', g.segment,
                     ' WHERE EXISTS (SELECT 1 FROM persons1_segments AS s JOIN persons1_doublings AS d',
                     ' ON d.doubling = s.doubling AND d.`rows` IS NOT NULL',
                     ' WHERE s.segment = ', g.segment, ')'
                     ORDER BY g.segment SEPARATOR ' UNION ALL ')
    ), 'DROP VIEW IF EXISTS persons1')
    FROM persons1_segments AS g
    JOIN persons1_doublings AS w ON w.doubling = g.doubling AND w.`rows` IS NOT NULL
    WHERE g.segment <> {{segment}}
)
-- then
PREPARE replayer_statement FROM @replayer_statement
-- then
EXECUTE replayer_statement
-- then
DROP PREPARE replayer_statement
-- then
DROP TABLE IF EXISTS persons1_s{{segment}}
-- then
DELETE FROM persons1_segments WHERE segment = {{segment}}
