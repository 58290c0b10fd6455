-- A segment is written down before its table is there, so that whatever is there is known.
INSERT INTO persons1_segments (segment, doubling, first_row, `rows`) VALUES (1, 0, 0, 6)
-- then
SET @replayer_began = (SELECT began FROM persons1_doublings WHERE doubling = 0)
-- then
CREATE TABLE persons1_s1 (
    n        bigint,
    id       bigint,
    lastname varchar(255),
    `time`   datetime(6)
) ENGINE = ColumnStore
-- then
INSERT INTO persons1_s1 (n, id, lastname, `time`) VALUES
    (1, 100, 'Jordan', @replayer_began), (2, 101, 'Kumar', @replayer_began),
    (3, 102, 'Duglas', @replayer_began), (4, 103, 'Johnson', @replayer_began),
    (5, 104, 'Petrov', @replayer_began), (6, 105, 'Hiraga', @replayer_began)
