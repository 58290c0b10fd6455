-- The settings that decide what a number means.
SELECT name, CAST(value AS VARCHAR) AS value
FROM duckdb_settings()
WHERE name IN ('threads', 'memory_limit', 'checkpoint_threshold', 'preserve_insertion_order',
               'autoload_known_extensions')
ORDER BY name
