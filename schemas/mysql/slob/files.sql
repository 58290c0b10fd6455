-- As MariaDB has it, with the names of partitions in lower case.
-- include parts/whole_tables
SELECT CONCAT(table_schema, '/', table_name, '#p#', LOWER(partition_name),
              COALESCE(CONCAT('#sp#', LOWER(subpartition_name)), ''), '.ibd')
-- include parts/partitions
