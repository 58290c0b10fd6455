-- The file, and its log while it has one.
SELECT 'replayer.duckdb' AS path
UNION ALL
SELECT 'replayer.duckdb.wal'
