-- Relative to the server's own folder, in which the library has one more.
SELECT substring(path, length('clickhouse/') + 1) AS path
FROM (
-- include files
)
