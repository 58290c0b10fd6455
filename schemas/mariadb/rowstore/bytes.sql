-- What one new segment takes.
SELECT data_length + index_length + IF(@@GLOBAL.innodb_file_per_table, data_free, 0) AS bytes
FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = 'persons1_s{{segment}}'
