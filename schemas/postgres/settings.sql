-- Every setting that is not the server's default, and those that decide what a number means.
SELECT name, current_setting(name) AS value
FROM pg_settings
WHERE source NOT IN ('default', 'override', 'client', 'session')
   OR name IN ('data_checksums', 'shared_buffers', 'io_method', 'effective_io_concurrency',
               'full_page_writes', 'wal_level')
ORDER BY name
