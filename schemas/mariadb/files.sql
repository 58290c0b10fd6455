-- Every file of the table: its segments and the catalogue beside them, relative to the data directory.
SELECT CONCAT(table_schema, '/', table_name, '.ibd') AS path
FROM information_schema.tables
WHERE table_schema = DATABASE() AND engine = 'InnoDB' AND table_name REGEXP '^persons1_'
