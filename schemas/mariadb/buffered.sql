-- Bytes of the table and of the catalogue beside it in the buffer pool.
-- The list of what is used, and not of all pages: of an empty pool that is the shorter one.
SELECT COUNT(*) * @@innodb_page_size AS bytes
FROM information_schema.innodb_buffer_page_lru
WHERE table_name REGEXP CONCAT('^`', DATABASE(), '`[.]`persons1_')
