-- Bytes that the table takes at most: a header of 5, bits and lengths of 2, n of 8, transaction and
-- roll pointer of 13, an id of 8, a time of 7, in pages that are 15/16 full, and files that grow by
-- 4 MiB.  The redo log is there already.
SELECT CAST(CEIL(:rows * (5 + 2 + 8 + 13 + 8 + 7 + :lastname_bytes) / 0.91 + :segments * 4194304) AS SIGNED)
           AS table_bytes,
       0 AS wal_bytes
