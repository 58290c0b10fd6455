-- Pages in the whole buffer pool, and how many of them the disk does not have yet.
SELECT CAST(SUM(IF(variable_name = 'INNODB_BUFFER_POOL_PAGES_DATA', variable_value, 0)) AS SIGNED)
           AS buffers,
       CAST(SUM(IF(variable_name = 'INNODB_BUFFER_POOL_PAGES_DIRTY', variable_value, 0)) AS SIGNED)
           AS dirty
-- include parts/status
WHERE variable_name IN ('INNODB_BUFFER_POOL_PAGES_DATA', 'INNODB_BUFFER_POOL_PAGES_DIRTY')
