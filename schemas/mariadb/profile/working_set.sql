-- The server does not count what is read of which table.
SELECT IF(pages_free > 0.05 * pages, pages_data * @@innodb_page_size, NULL) AS bytes,
       IF(pages_free > 0.05 * pages,
          'pages that were read or made since the start of the server, whose buffer pool has room left for more',
          'the buffer pool is full, and the server does not count what is read of each table') AS method
FROM (
    SELECT SUM(IF(variable_name = 'INNODB_BUFFER_POOL_PAGES_FREE', variable_value, 0)) AS pages_free,
           SUM(IF(variable_name = 'INNODB_BUFFER_POOL_PAGES_DATA', variable_value, 0)) AS pages_data,
           SUM(IF(variable_name = 'INNODB_BUFFER_POOL_PAGES_TOTAL', variable_value, 0)) AS pages
    -- include parts/status
) AS pool
