-- The only segment, doubled: its new version is made as segment 0 and takes its place, because a
-- columnar table cannot be read in the transaction that appends to it.
CREATE TABLE persons1_s0 USING columnar AS
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
