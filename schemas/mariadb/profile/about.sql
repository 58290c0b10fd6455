-- What no other server has, the page's size, the buffer pool in bytes, and settings that a size depends on.
-- Servers in containers may have the same name, port and folder; their system tables were made at other times.
SELECT SHA2(CONCAT_WS(' ', @@hostname, @@port, @@datadir, (
           SELECT MIN(create_time) FROM information_schema.tables WHERE table_schema = 'mysql'
       )), 256) AS server_id,
       @@innodb_page_size AS block_bytes,
       @@innodb_buffer_pool_size AS cache_bytes,
       @@max_connections AS max_connections,
       @@innodb_flush_log_at_trx_commit AS innodb_flush_log_at_trx_commit,
       @@innodb_flush_method AS innodb_flush_method,
       @@sync_binlog AS sync_binlog,
       @@log_bin AS log_bin,
       @@innodb_doublewrite AS innodb_doublewrite
