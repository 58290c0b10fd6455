UPDATE persons1_doublings
SET seconds = :seconds, table_bytes = :table_bytes, wal_bytes = :wal_bytes
WHERE doubling = {{doubling}}
