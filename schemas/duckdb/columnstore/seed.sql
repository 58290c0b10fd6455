INSERT INTO persons1
SELECT v.id, v.lastname, (SELECT began FROM persons1_doublings WHERE doubling = 0)
FROM (
    VALUES (100, 'Jordan'), (101, 'Kumar'), (102, 'Duglas'),
           (103, 'Johnson'), (104, 'Petrov'), (105, 'Hiraga')
) AS v (id, lastname)
-- then
INSERT INTO persons1_segments (segment, doubling, first_row, "rows") VALUES (1, 0, 0, 6)
