-- What one new segment takes.
SELECT pg_total_relation_size('persons1_s{{segment}}_id')
       + pg_total_relation_size('persons1_s{{segment}}_lastname')
       + pg_total_relation_size('persons1_s{{segment}}_time') AS bytes
