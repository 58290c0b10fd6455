-- Every file of the table: heap, TOAST and indexes of its segments, and the catalogue beside them,
-- relative to the data directory, without .1 .2 _fsm _vm.
-- include parts/relations
SELECT pg_relation_filepath(r.oid) AS path FROM relations AS r
UNION ALL
SELECT pg_relation_filepath(i.indexrelid)
FROM pg_index AS i
JOIN relations AS r ON r.oid = i.indrelid
