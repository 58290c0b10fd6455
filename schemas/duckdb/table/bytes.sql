-- The blocks of the file that are in use.
SELECT CAST(block_size * used_blocks AS BIGINT) AS bytes FROM pragma_database_size()
