-- What this server can compress TOAST with: lz4 from version 14 on, if it was built with it.
SELECT unnest(enumvals) AS name
FROM pg_settings
WHERE name = 'default_toast_compression'
UNION
SELECT unnest(ARRAY['pglz', 'none'])
