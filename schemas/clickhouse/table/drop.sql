-- Without persons1_build the rest is not found any more, and the next build replaces it.
DROP TABLE IF EXISTS persons1_build SYNC
-- then
DROP TABLE IF EXISTS persons1_doublings SYNC
-- then
DROP TABLE IF EXISTS persons1_segments SYNC
-- then
ALTER TABLE replayer_owned DELETE WHERE name = 'persons1' AND kind = 'table'
