-- Each segment by itself: through the view all rows would be copied into a temporary table first.
SET @replayer_statement = (
    SELECT CONCAT('SELECT SUM(s) / SUM(c) AS avg FROM (',
                  GROUP_CONCAT('SELECT SUM(id) AS s, COUNT(id) AS c FROM persons1_s', s.segment
                               ORDER BY s.segment SEPARATOR ' UNION ALL '),
                  ') AS parts')
    FROM persons1_segments AS s
    JOIN persons1_doublings AS d ON d.doubling = s.doubling AND d.`rows` IS NOT NULL
)
-- then
PREPARE replayer_statement FROM @replayer_statement
-- then
EXECUTE replayer_statement
-- then
DROP PREPARE replayer_statement
