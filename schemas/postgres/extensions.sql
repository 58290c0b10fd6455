-- What this database has beside the server itself, and which version of it.
SELECT extname AS name, extversion AS version
FROM pg_extension
WHERE extname <> 'plpgsql'
ORDER BY extname
