-- The doubling: one statement.  rowid numbers the rows from 0, in the order in which they were made.
INSERT INTO persons1
SELECT id + rowid + 1,
       lastname || CAST(rowid + 1 AS VARCHAR),
       (SELECT began FROM persons1_doublings WHERE doubling = {{doubling}})
FROM persons1
-- then
UPDATE persons1_segments SET doubling = {{doubling}}, "rows" = 2 * {{rows}}
