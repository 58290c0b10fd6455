FROM information_schema.partitions
WHERE partition_name IS NOT NULL
  AND CONCAT(table_schema, '.', table_name)
      = IF(LOCATE('.', :name) > 0, :name, CONCAT(DATABASE(), '.', :name))
