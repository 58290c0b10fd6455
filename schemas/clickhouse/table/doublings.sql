SELECT doubling, rows, seconds, table_bytes, wal_bytes
FROM persons1_doublings
WHERE rows IS NOT NULL
ORDER BY doubling
