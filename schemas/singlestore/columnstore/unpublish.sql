-- Emptied whole, which is quicker than a segment at a time; a build that never got so far has none.
CREATE TABLE IF NOT EXISTS persons1 (n BIGINT NOT NULL, SHARD KEY (n))
-- then
TRUNCATE TABLE persons1
