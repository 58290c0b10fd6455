-- In no transaction, so that the INSERT goes through cpimport.
COMMIT
-- then
-- What a doubling that was cut short has left.
DELETE FROM persons1_s1 WHERE n > {{rows}}
-- then
SET @replayer_began = (SELECT began FROM persons1_doublings WHERE doubling = {{doubling}})
-- then
INSERT INTO persons1_s1 (n, id, lastname, `time`)
SELECT n + {{rows}}, id + n, CONCAT(lastname, n), @replayer_began
FROM persons1_s1
-- then
UPDATE persons1_segments SET doubling = {{doubling}}, `rows` = 2 * {{rows}}
