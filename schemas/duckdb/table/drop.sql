DROP TABLE persons1_build
-- then
DROP TABLE persons1_doublings
-- then
DROP TABLE persons1_segments
-- then
DELETE FROM replayer_owned WHERE name = 'persons1' AND kind = 'table'
