-- As files.sql.
SELECT DISTINCT CONCAT('../../leaf/data/', file) AS path
FROM information_schema.columnar_segments
WHERE database_name = 'replayer' AND table_name = :name
