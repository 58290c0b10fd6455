-- The variables that decide what a number means.
SELECT 'columnstore_segment_rows' AS name, CONCAT(@@columnstore_segment_rows) AS value
UNION ALL
SELECT 'columnstore_flush_bytes', CONCAT(@@columnstore_flush_bytes)
UNION ALL
SELECT 'columnstore_disk_insert_threshold', CONCAT(@@columnstore_disk_insert_threshold)
UNION ALL
SELECT 'default_partitions_per_leaf', CONCAT(@@default_partitions_per_leaf)
UNION ALL
SELECT 'maximum_memory', CONCAT(@@maximum_memory)
