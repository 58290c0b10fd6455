-- The catalogue of the table: how it is built, every doubling, every segment.  DDL commits by itself,
-- so persons1_build comes last: before that there is no table to be found.
DELETE FROM replayer_owned WHERE name = 'persons1'
-- then
INSERT INTO replayer_owned (name, kind, made_by) VALUES ('persons1', 'table', :made_by)
-- then
DROP TABLE IF EXISTS persons1_doublings
-- then
DROP TABLE IF EXISTS persons1_segments
-- then
-- A doubling counts once its `rows` are set.
CREATE TABLE persons1_doublings (
    doubling    BIGINT NOT NULL,
    began       DATETIME(6),
    `rows`      BIGINT,
    seconds     DOUBLE,
    table_bytes BIGINT,
    wal_bytes   BIGINT,
    PRIMARY KEY (doubling)
)
-- then
-- first_row counts from 0 in the order in which all rows are numbered.
CREATE TABLE persons1_segments (
    segment   BIGINT NOT NULL,
    doubling  BIGINT NOT NULL,
    first_row BIGINT NOT NULL,
    `rows`    BIGINT NOT NULL,
    PRIMARY KEY (segment)
)
-- then
CREATE TABLE persons1_build (
    layout       VARCHAR(64) NOT NULL,
    compression  VARCHAR(64) NOT NULL,
    segment_rows BIGINT NOT NULL,
    rows_wanted  BIGINT NOT NULL,
    PRIMARY KEY (layout)
)
-- then
INSERT INTO persons1_build (layout, compression, segment_rows, rows_wanted)
VALUES (:layout, :compression, :segment_rows, :rows_wanted)
