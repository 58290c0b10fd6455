DROP TABLE IF EXISTS persons1_s{{segment}}
-- then
DELETE FROM persons1_segments WHERE segment = {{segment}}
