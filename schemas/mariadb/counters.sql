-- The server's clock and the pages found and not found in the buffer pool, read together.
-- Innodb_pages_read counts pages that were read ahead too; Innodb_buffer_pool_reads does not.
SELECT UNIX_TIMESTAMP(SYSDATE(6)) AS clock, s.requests - s.pages_read AS hits, s.pages_read AS `reads`
FROM (
    SELECT CAST(SUM(IF(variable_name = 'INNODB_BUFFER_POOL_READ_REQUESTS', variable_value, 0)) AS SIGNED)
               AS requests,
           CAST(SUM(IF(variable_name = 'INNODB_PAGES_READ', variable_value, 0)) AS SIGNED)
               AS pages_read
    -- include parts/status
    WHERE variable_name IN ('INNODB_BUFFER_POOL_READ_REQUESTS', 'INNODB_PAGES_READ')
) AS s
