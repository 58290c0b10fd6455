DROP TABLE persons1_s{{segment}}_id, persons1_s{{segment}}_lastname, persons1_s{{segment}}_time
-- then
DELETE FROM persons1_segments WHERE segment = {{segment}}
