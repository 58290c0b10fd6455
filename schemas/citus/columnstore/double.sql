-- include parts/commit_later
-- Reads a segment that is committed and writes another: a columnar table with rows that its own
-- transaction has not flushed cannot be read.
CREATE TABLE persons1_s{{target}} USING columnar AS
-- include parts/new_segment
