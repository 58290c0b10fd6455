-- Bytes of all column files; rows that are still in memory are not among them.
SELECT CAST(COALESCE(SUM(compressed_size), 0) AS SIGNED) AS bytes
FROM information_schema.columnar_segments
WHERE database_name = 'replayer' AND table_name = 'persons1'
