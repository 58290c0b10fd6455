-- Bytes that the table takes at most: numbers, ids and times, and the names with their length, though
-- all are compressed; a part that is merged is there twice for some minutes.
SELECT toInt64(ceil(:rows * (8 + 8 + 8 + 1 + :lastname_bytes))) AS table_bytes,
       toInt64(268435456) AS wal_bytes
