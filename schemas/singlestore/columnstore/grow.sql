-- The doubling: one statement, which the server divides among its partitions.
INSERT INTO persons1 (n, id, lastname, `time`)
SELECT p.n + {{rows}}, p.id + p.n, CONCAT(p.lastname, p.n), d.began
FROM persons1 AS p, persons1_doublings AS d
WHERE d.doubling = {{doubling}}
-- then
UPDATE persons1_segments SET doubling = {{doubling}}, `rows` = 2 * {{rows}} WHERE segment = 1
