-- What one new segment takes.
SELECT data_length + index_length + data_free AS bytes
FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = 'persons1_s{{segment}}'
