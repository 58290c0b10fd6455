-- Bytes of tables in the buffer manager, which keeps what it has read while the page cache is empty.
SELECT CAST(sum(memory_usage_bytes) AS BIGINT) AS bytes FROM duckdb_memory() WHERE tag = 'BASE_TABLE'
