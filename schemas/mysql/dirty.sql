-- Pages in the whole buffer pool, and how many of them the disk does not have yet.
SELECT CAST(SUM(IF(variable_name = 'Innodb_buffer_pool_pages_data', variable_value, 0)) AS SIGNED)
           AS buffers,
       CAST(SUM(IF(variable_name = 'Innodb_buffer_pool_pages_dirty', variable_value, 0)) AS SIGNED)
           AS dirty
FROM performance_schema.global_status
WHERE variable_name IN ('Innodb_buffer_pool_pages_data', 'Innodb_buffer_pool_pages_dirty')
