-- The commit that publishes the doubling waits for the disk, and with it for all that was written
-- before: the commits of single segments need not.
SET LOCAL synchronous_commit = off
-- then
-- A new segment from an old one, a column at a time.  unnest and generate_series run in lockstep in
-- the select list, which is faster than WITH ORDINALITY.
INSERT INTO persons1_s{{target}}_id (minimum, maximum, v)
SELECT min(id + n), max(id + n), array_agg(id + n)
FROM (
    SELECT unnest(v) AS id,
           generate_series({{first_row}}::bigint + 1, {{first_row}}::bigint + {{rows}}) AS n
    FROM persons1_s{{source}}_id
) AS s
-- then
INSERT INTO persons1_s{{target}}_lastname (minimum, maximum, v)
SELECT min(lastname COLLATE "C"), max(lastname COLLATE "C"), array_agg(lastname::varchar)
FROM (
    SELECT lastname || n AS lastname
    FROM (
        SELECT unnest(v) AS lastname,
               generate_series({{first_row}}::bigint + 1, {{first_row}}::bigint + {{rows}}) AS n
        FROM persons1_s{{source}}_lastname
    ) AS old
    OFFSET 0
) AS s
-- then
-- All values are the same, and are kept once: there is no array.
INSERT INTO persons1_s{{target}}_time (minimum, maximum)
SELECT began, began FROM persons1_doublings WHERE doubling = {{doubling}}
-- then
INSERT INTO persons1_segments
SELECT {{target}}, {{doubling}}, {{target_row}}, {{rows}},
       i.minimum, i.maximum, l.minimum, l.maximum, t.minimum, t.maximum
FROM persons1_s{{target}}_id AS i,
     persons1_s{{target}}_lastname AS l,
     persons1_s{{target}}_time AS t
