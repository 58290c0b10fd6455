-- A segment is written down before its table is there, so that whatever is there is known.
INSERT INTO persons1_segments (segment, doubling, first_row, `rows`)
VALUES ({{target}}, {{doubling}}, {{target_row}}, {{rows}})
-- then
-- A variable, because a ColumnStore query may not look into an InnoDB table without more set up.
SET @replayer_began = (SELECT began FROM persons1_doublings WHERE doubling = {{doubling}})
-- then
-- This commits, so that what follows is in no transaction: only then an INSERT goes through cpimport.
CREATE TABLE persons1_s{{target}} (
    n        bigint,
    id       bigint,
    lastname varchar(255),
    `time`   datetime(6)
) ENGINE = ColumnStore
-- then
INSERT INTO persons1_s{{target}} (n, id, lastname, `time`)
SELECT n - {{first_row}} + {{target_row}}, id + n, CONCAT(lastname, n), @replayer_began
FROM persons1_s{{source}}
