SELECT id, lastname, "time" FROM persons1_s1
UNION ALL
SELECT id + n, (lastname || n)::varchar(255),
       (SELECT began FROM persons1_doublings WHERE doubling = {{doubling}})
FROM (SELECT id, lastname, row_number() OVER () AS n FROM persons1_s1) AS s
-- then
DROP TABLE persons1_s1
-- then
ALTER TABLE persons1_s0 RENAME TO persons1_s1
-- then
UPDATE persons1_segments SET doubling = {{doubling}}, rows = 2 * {{rows}}::bigint
