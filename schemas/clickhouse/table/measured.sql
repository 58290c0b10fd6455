ALTER TABLE persons1_doublings
UPDATE seconds = :seconds, table_bytes = :table_bytes, wal_bytes = :wal_bytes
WHERE doubling = {{doubling}}
