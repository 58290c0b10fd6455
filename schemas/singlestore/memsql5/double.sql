-- The same for one range of the rows, where segment_rows was given.
INSERT INTO persons1 (n, id, lastname, `time`)
SELECT p.n - {{first_row}} + {{target_row}}, p.id + p.n, CONCAT(p.lastname, p.n), d.began
FROM persons1 AS p, persons1_doublings AS d
WHERE d.doubling = {{doubling}} AND p.n > {{first_row}} AND p.n <= {{first_row}} + {{rows}}
-- then
INSERT INTO persons1_segments (segment, doubling, first_row, `rows`)
VALUES ({{target}}, {{doubling}}, {{target_row}}, {{rows}})
