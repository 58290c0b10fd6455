INSERT INTO persons1_segments (segment, doubling, first_row, rows) SELECT 1, 0, 0, 6
-- then
INSERT INTO persons1
SELECT number + 1, 100 + number,
       ['Jordan', 'Kumar', 'Duglas', 'Johnson', 'Petrov', 'Hiraga'][number + 1],
       (SELECT began FROM persons1_doublings WHERE doubling = 0)
FROM numbers(6)
