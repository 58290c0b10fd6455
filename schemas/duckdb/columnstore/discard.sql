-- The table is one segment; a doubling that was cut short was rolled back.
DROP TABLE IF EXISTS persons1
-- then
DELETE FROM persons1_segments WHERE segment = {{segment}}
