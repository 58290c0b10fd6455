-- Bytes that the table takes at most, and the WAL beside it: a line pointer of 4, a header of 24, ids
-- and times of 8, strings with a header of 1 and half a word of padding, in pages nearly full.
-- The WAL of a build is small where wal_level is minimal, but the freezing after it writes up to an
-- image of every page.
SELECT table_bytes, least(table_bytes, pg_size_bytes(current_setting('max_wal_size'))) AS wal_bytes
FROM (
    SELECT ceil(:rows * (4 + 24 + 8 + 8 + 1 + 4 + :lastname_bytes) / 0.97 + :segments * 65536)::bigint
               AS table_bytes
) AS e
