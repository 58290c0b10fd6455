-- Emptied whole, which is quicker than a segment at a time; a build that never got so far has none.
TRUNCATE TABLE IF EXISTS persons1
-- then
TRUNCATE TABLE IF EXISTS persons1_segments
