-- Every setting that is not the server's default, and those that decide what a number means.
SELECT v.variable_name AS name, v.variable_value AS value
FROM performance_schema.global_variables AS v
JOIN performance_schema.variables_info AS i ON i.variable_name = v.variable_name
WHERE i.variable_source <> 'COMPILED'
   OR v.variable_name IN (
       'innodb_buffer_pool_size', 'innodb_checksum_algorithm', 'innodb_doublewrite',
       'innodb_flush_log_at_trx_commit', 'innodb_flush_method', 'innodb_page_size',
       'innodb_redo_log_capacity', 'innodb_use_native_aio', 'log_bin'
   )
ORDER BY name
