-- The file of a table and its indexes, relative to the data directory; of each partition, if it has some.
-- include parts/whole_tables
SELECT CONCAT(table_schema, '/', table_name, '#P#', partition_name,
              COALESCE(CONCAT('#SP#', subpartition_name), ''), '.ibd')
-- include parts/partitions
