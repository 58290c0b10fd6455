-- A segment is written down before its table is there, so that whatever is there is known.
INSERT INTO persons1_segments (segment, doubling, first_row, `rows`)
VALUES ({{target}}, {{doubling}}, {{target_row}}, {{rows}})
-- then
CREATE TABLE persons1_s{{target}} (
    n        bigint NOT NULL PRIMARY KEY,
    id       bigint,
    lastname varchar(255),
    `time`   timestamp(6) NULL
) ENGINE = InnoDB
-- then
INSERT INTO persons1_s{{target}} (n, id, lastname, `time`)
SELECT n - {{first_row}} + {{target_row}}, id + n, CONCAT(lastname, n),
       (SELECT began FROM persons1_doublings WHERE doubling = {{doubling}})
FROM persons1_s{{source}}
-- then
-- For its size, and for whoever plans a query.
ANALYZE TABLE persons1_s{{target}}
