INSERT INTO persons1_s1_id VALUES (100, 105, '{100,101,102,103,104,105}')
-- then
INSERT INTO persons1_s1_lastname
VALUES ('Duglas', 'Petrov', '{Jordan,Kumar,Duglas,Johnson,Petrov,Hiraga}')
-- then
INSERT INTO persons1_s1_time
SELECT began, began, array_fill(began, ARRAY[6]) FROM persons1_doublings WHERE doubling = 0
-- then
INSERT INTO persons1_segments
SELECT 1, 0, 0, 6, i.minimum, i.maximum, l.minimum, l.maximum, t.minimum, t.maximum
FROM persons1_s1_id AS i, persons1_s1_lastname AS l, persons1_s1_time AS t
