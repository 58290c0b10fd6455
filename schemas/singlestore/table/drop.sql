-- Without persons1_build the rest is not found any more, and the next build replaces it.
DROP TABLE IF EXISTS persons1_build
-- then
DROP TABLE IF EXISTS persons1_doublings
-- then
DROP TABLE IF EXISTS persons1_segments
-- then
DELETE FROM replayer_owned WHERE name = 'persons1' AND kind = 'table'
