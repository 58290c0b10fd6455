-- The catalogue of the table: how it is built, every doubling, every segment.  Nothing is undone here,
-- so persons1_build comes last: before that there is no table to be found.
ALTER TABLE replayer_owned DELETE WHERE name = 'persons1'
-- then
INSERT INTO replayer_owned (name, kind, made_by) SELECT 'persons1', 'table', :made_by
-- then
DROP TABLE IF EXISTS persons1_doublings SYNC
-- then
DROP TABLE IF EXISTS persons1_segments SYNC
-- then
-- A doubling counts once its `rows` are set.
CREATE TABLE persons1_doublings (
    doubling Int64, began DateTime64(6), rows Nullable(Int64), seconds Nullable(Float64),
    table_bytes Nullable(Int64), wal_bytes Nullable(Int64)
) ENGINE = MergeTree ORDER BY doubling
-- then
-- A segment is the rows of one doubling; first_row counts from 0.
CREATE TABLE persons1_segments (segment Int64, doubling Int64, first_row Int64, rows Int64)
ENGINE = MergeTree ORDER BY segment
-- then
CREATE TABLE persons1_build ENGINE = MergeTree ORDER BY tuple() AS
SELECT :layout AS layout, :compression AS compression, toInt64(:segment_rows) AS segment_rows,
       toInt64(:rows_wanted) AS rows_wanted
