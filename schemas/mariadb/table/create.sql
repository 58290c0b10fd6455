-- The catalogue of the table: how it is built, every doubling, every segment.  DDL commits by itself,
-- so persons1_build, with its row, appears as the last: before that there is no table to be found.
INSERT INTO replayer_owned (name, kind, made_by) VALUES ('persons1', 'table', :made_by)
ON DUPLICATE KEY UPDATE made_by = VALUES(made_by)
-- then
DROP TABLE IF EXISTS persons1_build, persons1_new, persons1_doublings, persons1_segments
-- then
-- A doubling counts once its `rows` are set.
CREATE TABLE persons1_doublings (
    doubling    int PRIMARY KEY,
    began       timestamp(6) NULL,
    `rows`      bigint,
    seconds     double,
    table_bytes bigint,
    wal_bytes   bigint
) ENGINE = InnoDB
-- then
-- first_row counts from 0 in the order in which all rows are numbered.
CREATE TABLE persons1_segments (
    segment   int PRIMARY KEY,
    doubling  int NOT NULL,
    first_row bigint NOT NULL,
    `rows`    bigint NOT NULL
) ENGINE = InnoDB
-- then
CREATE TABLE persons1_new (
    layout       varchar(64) NOT NULL,
    compression  varchar(64) NOT NULL,
    segment_rows bigint NOT NULL,
    rows_wanted  bigint NOT NULL
) ENGINE = InnoDB
-- then
INSERT INTO persons1_new (layout, compression, segment_rows, rows_wanted)
VALUES (:layout, :compression, :segment_rows, :rows_wanted)
-- then
COMMIT
-- then
RENAME TABLE persons1_new TO persons1_build
