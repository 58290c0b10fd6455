-- Every file of the database, relative to the data directory.
SELECT CONCAT(table_schema, '/', table_name, '.ibd') AS path
FROM information_schema.tables
WHERE table_schema = DATABASE() AND engine = 'InnoDB'
