SELECT SUM(file_size) AS database_bytes
-- include parts/tablespaces
