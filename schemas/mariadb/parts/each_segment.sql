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
