-- Bytes that the table takes at most, and the WAL beside it, which holds an image of every page: ids
-- and times of 8 bytes, strings with a header of 4, in pages nearly full.
-- zstd was seen to leave 28 percent of it, pglz 46, lz4 58.
SELECT table_bytes, least(table_bytes, pg_size_bytes(current_setting('max_wal_size'))) AS wal_bytes
FROM (
    SELECT ceil(
               :rows * (8 + 8 + 4 + :lastname_bytes) / 0.96
               * CASE :compression
                   WHEN 'none' THEN 1.0 WHEN 'lz4' THEN 0.65 WHEN 'pglz' THEN 0.55 ELSE 0.35
                 END
               + :segments * 32768
           )::bigint AS table_bytes
) AS e
