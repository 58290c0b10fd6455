-- The files of a table and its index, relative to the data directory, without .1 .2 _fsm _vm.
SELECT pg_relation_filepath(c.oid) AS path
FROM pg_class AS c
WHERE c.oid = to_regclass(:name)
UNION ALL
SELECT pg_relation_filepath(i.indexrelid)
FROM pg_index AS i
WHERE i.indrelid = to_regclass(:name)
