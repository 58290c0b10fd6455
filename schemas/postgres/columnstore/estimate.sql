-- Bytes that the table takes at most, and the WAL beside it: ids of 8 bytes, strings with a header of 4
-- and up to 3 of padding, in TOAST pages that are nearly full.
-- Only the first segment has times of its own for its rows, of 8 bytes.
-- pglz was seen to leave 45 percent of it, lz4 58.  The WAL of a build is small where wal_level is
-- minimal, but the freezing after it writes up to an image of every page.
SELECT table_bytes, least(table_bytes, pg_size_bytes(current_setting('max_wal_size'))) AS wal_bytes
FROM (
    SELECT ceil(
               (:rows * (8 + 4 + 1.5 + :lastname_bytes) + :rows * 8.0 / :segments) / 0.96
               * CASE :compression WHEN 'none' THEN 1.0 WHEN 'lz4' THEN 0.65 ELSE 0.55 END
               + :segments * 3 * 65536
           )::bigint AS table_bytes
) AS e
