-- The only segment, doubled: its new version is made as segment 0 and takes its place.
INSERT INTO persons1_s0_id (minimum, maximum, v)
SELECT least(o.minimum, g.minimum), greatest(o.maximum, g.maximum), o.v || g.v
FROM persons1_s1_id AS o, (
    SELECT min(id + n) AS minimum, max(id + n) AS maximum, array_agg(id + n) AS v
    FROM (
        SELECT unnest(v) AS id, generate_series(1::bigint, {{rows}}) AS n FROM persons1_s1_id
    ) AS s
) AS g
-- then
INSERT INTO persons1_s0_lastname (minimum, maximum, v)
SELECT least(o.minimum COLLATE "C", g.minimum), greatest(o.maximum COLLATE "C", g.maximum), o.v || g.v
FROM persons1_s1_lastname AS o, (
    SELECT min(lastname COLLATE "C") AS minimum, max(lastname COLLATE "C") AS maximum,
           array_agg(lastname::varchar) AS v
    FROM (
        SELECT lastname || n AS lastname
        FROM (
            SELECT unnest(v) AS lastname, generate_series(1::bigint, {{rows}}) AS n
            FROM persons1_s1_lastname
        ) AS old
        OFFSET 0
    ) AS s
) AS g
-- then
INSERT INTO persons1_s0_time (minimum, maximum, v)
SELECT least(o.minimum, d.began), greatest(o.maximum, d.began),
       o.v || array_fill(d.began, ARRAY[{{rows}}])
FROM persons1_s1_time AS o, persons1_doublings AS d
WHERE d.doubling = {{doubling}}
-- then
DROP VIEW persons1
-- then
DROP TABLE persons1_s1_id, persons1_s1_lastname, persons1_s1_time
-- then
ALTER TABLE persons1_s0_id RENAME TO persons1_s1_id
-- then
ALTER TABLE persons1_s0_lastname RENAME TO persons1_s1_lastname
-- then
ALTER TABLE persons1_s0_time RENAME TO persons1_s1_time
-- then
DELETE FROM persons1_segments
-- then
INSERT INTO persons1_segments
SELECT 1, {{doubling}}, 0, 2 * {{rows}}::bigint,
       i.minimum, i.maximum, l.minimum, l.maximum, t.minimum, t.maximum
FROM persons1_s1_id AS i, persons1_s1_lastname AS l, persons1_s1_time AS t
