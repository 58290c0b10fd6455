-- The catalogue of the table: how it is built, every doubling, every segment.
-- A doubling counts once its `rows` are set, in the transaction that makes its rows.
INSERT INTO replayer_owned (name, kind, made_by) VALUES ('persons1', 'table', :made_by)
-- then
CREATE TABLE persons1_build (
    layout VARCHAR, compression VARCHAR, segment_rows BIGINT, rows_wanted BIGINT
)
-- then
INSERT INTO persons1_build (layout, compression, segment_rows, rows_wanted)
VALUES (:layout, :compression, :segment_rows, :rows_wanted)
-- then
CREATE TABLE persons1_doublings (
    doubling BIGINT, began TIMESTAMP, "rows" BIGINT, seconds DOUBLE, table_bytes BIGINT,
    wal_bytes BIGINT
)
-- then
-- first_row counts from 0 in the order in which all rows are numbered.
CREATE TABLE persons1_segments (segment BIGINT, doubling BIGINT, first_row BIGINT, "rows" BIGINT)
