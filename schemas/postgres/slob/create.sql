-- One row per 8 KiB block: a tuple is about 1,070 bytes and fillfactor 10 leaves 819 for inserts, so
-- that a second one never fits, while an UPDATE finds 90 percent of its block free (HOT).
-- PLAIN keeps the filler in the row, uncompressed.
CREATE TABLE {{table}} (
    mykey bigint NOT NULL,
    scratch bigint NOT NULL,
    filler char(1024) NOT NULL
) WITH (fillfactor = 10)
-- then
ALTER TABLE {{table}} ALTER COLUMN filler SET STORAGE PLAIN
-- then
-- A line that is already there belongs to a table that somebody dropped by hand.
INSERT INTO replayer_owned (name, kind, made_by) VALUES (:name, 'slob', :made_by)
ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, made_by = excluded.made_by
