-- The only segment, doubled: its new version is made as segment 0 and takes its place.
CREATE TABLE persons1_s0 AS
-- include parts/grown_segment
