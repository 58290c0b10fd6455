INSERT INTO persons1 (n, id, lastname, `time`)
SELECT v.n, 99 + v.n, v.lastname, d.began
FROM (
    SELECT 1 AS n, 'Jordan' AS lastname UNION ALL SELECT 2, 'Kumar' UNION ALL SELECT 3, 'Duglas'
    UNION ALL SELECT 4, 'Johnson' UNION ALL SELECT 5, 'Petrov' UNION ALL SELECT 6, 'Hiraga'
) AS v, persons1_doublings AS d
WHERE d.doubling = 0
-- then
INSERT INTO persons1_segments (segment, doubling, first_row, `rows`) VALUES (1, 0, 0, 6)
