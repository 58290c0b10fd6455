-- Every file of the database, relative to the data directory, without .1 .2 _fsm _vm.
SELECT pg_relation_filepath(oid) AS path FROM pg_class WHERE relkind IN ('r', 'i', 't', 'm', 'S')
