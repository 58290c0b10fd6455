-- Bytes that the table takes at most: ids, times and dictionary offsets, and the names as they are,
-- though both are compressed; and its log as well, which takes rows that are not yet in blocks.
SELECT CAST(ceil(:rows * (8 + 8 + 4 + :lastname_bytes)) AS BIGINT) AS table_bytes,
       CAST(268435456 AS BIGINT) AS wal_bytes
