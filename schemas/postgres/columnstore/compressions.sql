-- What this server can compress TOAST with, the best first: lz4 from version 14 on, if it was built
-- with it.
SELECT c.name
FROM unnest(ARRAY['lz4', 'pglz', 'none']) WITH ORDINALITY AS c (name, place)
WHERE c.name <> 'lz4' OR EXISTS (
    SELECT FROM pg_settings
    WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
)
ORDER BY c.place
