-- What the extension was built with, the best first.  Its settings are there once a session has
-- touched a columnar table.
CREATE TEMPORARY TABLE replayer_first (n bigint) USING columnar
-- then
DROP TABLE replayer_first
-- then
SELECT c.name
FROM unnest(ARRAY['zstd', 'lz4', 'pglz', 'none']) WITH ORDINALITY AS c (name, place)
WHERE EXISTS (
    SELECT FROM pg_settings WHERE name = 'columnar.compression' AND c.name = ANY (enumvals)
)
ORDER BY c.place
