SELECT v.id::bigint AS id, v.lastname::varchar(255) AS lastname, d.began AS "time"
FROM (
    VALUES (100, 'Jordan'), (101, 'Kumar'), (102, 'Duglas'),
           (103, 'Johnson'), (104, 'Petrov'), (105, 'Hiraga')
) AS v (id, lastname), persons1_doublings AS d
WHERE d.doubling = 0
-- then
INSERT INTO persons1_segments (segment, doubling, first_row, rows) VALUES (1, 0, 0, 6)
