-- The only segment, doubled: its new version is made as segment 0 and takes its place, because a
-- columnar table cannot be read in the transaction that appends to it.
CREATE TABLE persons1_s0 USING columnar AS
-- include parts/grown_segment
