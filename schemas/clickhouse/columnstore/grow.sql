-- The doubling: one statement.  Its segment is listed first, so that what a kill leaves is known.
INSERT INTO persons1_segments (segment, doubling, first_row, rows)
SELECT {{doubling}} + 1, {{doubling}}, {{rows}}, {{rows}}
-- then
INSERT INTO persons1
SELECT n + {{rows}}, id + n, concat(lastname, toString(n)),
       (SELECT began FROM persons1_doublings WHERE doubling = {{doubling}})
FROM persons1
WHERE n <= {{rows}}
