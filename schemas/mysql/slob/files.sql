-- The file of a table and its indexes, relative to the data directory; of each partition, if it has some.
SELECT CONCAT(table_schema, '/', table_name, '.ibd') AS path
FROM information_schema.tables
WHERE engine = 'InnoDB' AND create_options NOT LIKE '%partitioned%'
  AND CONCAT(table_schema, '.', table_name)
      = IF(LOCATE('.', :name) > 0, :name, CONCAT(DATABASE(), '.', :name))
UNION ALL
SELECT CONCAT(table_schema, '/', table_name, '#p#', LOWER(partition_name),
              COALESCE(CONCAT('#sp#', LOWER(subpartition_name)), ''), '.ibd')
FROM information_schema.partitions
WHERE partition_name IS NOT NULL
  AND CONCAT(table_schema, '.', table_name)
      = IF(LOCATE('.', :name) > 0, :name, CONCAT(DATABASE(), '.', :name))
