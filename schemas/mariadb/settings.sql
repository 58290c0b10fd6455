-- Every setting that is not the server's default, and those that decide what a number means.
SELECT LOWER(variable_name) AS name, global_value AS value
FROM information_schema.system_variables
WHERE global_value IS NOT NULL
  AND (
      global_value_origin NOT IN ('COMPILE-TIME', 'AUTO')
      AND variable_name NOT IN ('DATADIR', 'SOCKET', 'PID_FILE')
      OR variable_name IN (
          'INNODB_BUFFER_POOL_SIZE', 'INNODB_CHECKSUM_ALGORITHM', 'INNODB_DOUBLEWRITE',
          'INNODB_FLUSH_LOG_AT_TRX_COMMIT', 'INNODB_FLUSH_METHOD', 'INNODB_LOG_FILE_SIZE',
          'INNODB_PAGE_SIZE', 'INNODB_USE_NATIVE_AIO', 'LOG_BIN'
      )
  )
ORDER BY name
