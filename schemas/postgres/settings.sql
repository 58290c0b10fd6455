-- Every setting that is not the server's default, and those that decide what a number means.
-- What replayer's own connection sets says nothing about the server.
SELECT name, current_setting(name) AS value
FROM pg_settings
WHERE source NOT IN ('default', 'override', 'session')
      AND name NOT IN ('application_name', 'client_encoding')
   OR name IN ('data_checksums', 'shared_buffers', 'io_method', 'effective_io_concurrency',
               'full_page_writes', 'wal_level')
ORDER BY name
