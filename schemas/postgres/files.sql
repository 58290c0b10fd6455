-- Every file of the table: heap, TOAST and indexes of its segments, and the catalogue beside them,
-- relative to the data directory, without .1 .2 _fsm _vm.
WITH tables AS (
    SELECT c.oid, c.reltoastrelid
    FROM pg_class AS c
    WHERE c.relnamespace = to_regnamespace(current_schema())
      AND c.relkind = 'r'
      AND c.relname ~ '^persons1(_|$)'
),
relations AS (
    SELECT oid FROM tables
    UNION ALL
    SELECT reltoastrelid FROM tables WHERE reltoastrelid <> 0
)
SELECT pg_relation_filepath(r.oid) AS path FROM relations AS r
UNION ALL
SELECT pg_relation_filepath(i.indexrelid)
FROM pg_index AS i
JOIN relations AS r ON r.oid = i.indrelid
