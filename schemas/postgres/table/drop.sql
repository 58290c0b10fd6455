DROP TABLE persons1_build, persons1_doublings, persons1_segments
-- then
DELETE FROM replayer_owned WHERE name = 'persons1' AND kind = 'table'
