-- What no other server has, the block's size, its own buffers in bytes, and settings that a size depends on.
SELECT extract(epoch FROM pg_postmaster_start_time())::text AS server_id,
       current_setting('block_size')::int AS block_bytes,
       (SELECT setting::float8 * current_setting('block_size')::float8
        FROM pg_settings WHERE name = 'shared_buffers') AS cache_bytes,
       current_setting('shared_buffers') AS shared_buffers,
       current_setting('max_connections') AS max_connections,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('max_wal_size') AS max_wal_size,
       current_setting('checkpoint_timeout') AS checkpoint_timeout,
       pg_is_in_recovery() AS standby
