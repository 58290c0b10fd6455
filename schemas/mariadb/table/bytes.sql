-- Bytes of all segments: pages of their trees, and what their files have beside them.
SELECT CAST(COALESCE(SUM(data_length + index_length + data_free), 0) AS SIGNED) AS bytes
FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name REGEXP '^persons1_s[0-9]+$'
