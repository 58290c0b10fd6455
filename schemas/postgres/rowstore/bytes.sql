-- What one new segment takes.
SELECT pg_total_relation_size('persons1_s{{segment}}') AS bytes
