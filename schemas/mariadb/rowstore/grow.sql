-- The only segment, doubled where it is, in one transaction with what makes the doubling count.
INSERT INTO persons1_s1 (n, id, lastname, `time`)
SELECT n + {{rows}}, id + n, CONCAT(lastname, n),
       (SELECT began FROM persons1_doublings WHERE doubling = {{doubling}})
FROM persons1_s1
ORDER BY n
-- then
UPDATE persons1_segments SET doubling = {{doubling}}, `rows` = 2 * {{rows}}
