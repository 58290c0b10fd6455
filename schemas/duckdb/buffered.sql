-- Bytes of tables in the buffer manager, which keeps what it has read while the page cache is empty.
-- The block that is not counted holds the file's own catalogue: it is read when the file is opened.
SELECT CAST(greatest(0, (SELECT sum(memory_usage_bytes) FROM duckdb_memory() WHERE tag = 'BASE_TABLE')
                        - block_size) AS BIGINT) AS bytes
FROM pragma_database_size()
