-- What one new segment takes.  Reading it writes the stripe that its transaction still holds.
SELECT count(*) FROM (SELECT FROM persons1_s{{segment}} LIMIT 1) AS s
-- then
SELECT pg_total_relation_size('persons1_s{{segment}}') AS bytes
