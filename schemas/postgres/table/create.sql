-- The catalogue of the table: how it is built, every doubling, every segment.
-- A doubling counts once its `rows` are set, in the transaction that makes its segments visible.
INSERT INTO replayer_owned (name, kind, made_by) VALUES ('persons1', 'table', :made_by)
-- then
CREATE TABLE persons1_build (
    layout       text NOT NULL,
    compression  text NOT NULL,
    segment_rows bigint NOT NULL,
    rows_wanted  bigint NOT NULL
)
-- then
INSERT INTO persons1_build (layout, compression, segment_rows, rows_wanted)
VALUES (:layout, :compression, :segment_rows, :rows_wanted)
-- then
CREATE TABLE persons1_doublings (
    doubling    int PRIMARY KEY,
    began       timestamp NOT NULL,
    rows        bigint,
    seconds     float8,
    table_bytes bigint,
    wal_bytes   bigint
)
-- then
-- first_row counts from 0 in the order in which all rows are numbered.
CREATE TABLE persons1_segments (
    segment      int PRIMARY KEY,
    doubling     int NOT NULL,
    first_row    bigint NOT NULL,
    rows         bigint NOT NULL,
    id_min       bigint,
    id_max       bigint,
    lastname_min text,
    lastname_max text,
    time_min     timestamp,
    time_max     timestamp
)
