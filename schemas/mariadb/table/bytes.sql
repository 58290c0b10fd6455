-- Bytes of all segments: pages of their trees, and what their files have beside them.  In a
-- tablespace that tables share, data_free of each is that of all.
SELECT CAST(COALESCE(SUM(data_length + index_length + IF(@@GLOBAL.innodb_file_per_table, data_free, 0)), 0) AS SIGNED) AS bytes
FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name REGEXP '^persons1_s[0-9]+$'
