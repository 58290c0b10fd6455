-- include parts/commit_later
-- CREATE TABLE AS and not INSERT: it appends strictly, where an INSERT may put a short row into a gap of
-- an earlier page, and the stored order is what numbers the rows.  It also writes no WAL for the rows
-- when wal_level is minimal.
CREATE TABLE persons1_s{{target}} AS
-- include parts/new_segment
