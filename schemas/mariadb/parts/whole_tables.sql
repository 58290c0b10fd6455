SELECT CONCAT(table_schema, '/', table_name, '.ibd') AS path
FROM information_schema.tables
WHERE engine = 'InnoDB' AND create_options NOT LIKE '%partitioned%'
  AND CONCAT(table_schema, '.', table_name)
      = IF(LOCATE('.', :name) > 0, :name, CONCAT(DATABASE(), '.', :name))
UNION ALL
