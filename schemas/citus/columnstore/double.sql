-- The commit that publishes the doubling waits for the disk, and with it for all that was written
-- before: the commits of single segments need not.
SET LOCAL synchronous_commit = off
-- then
-- Reads a segment that is committed and writes another: a columnar table with rows that its own
-- transaction has not flushed cannot be read.
CREATE TABLE persons1_s{{target}} USING columnar AS
SELECT id + n AS id,
       (lastname || n)::varchar(255) AS lastname,
       (SELECT began FROM persons1_doublings WHERE doubling = {{doubling}}) AS "time"
FROM (
    SELECT id, lastname, row_number() OVER () + {{first_row}} AS n FROM persons1_s{{source}}
) AS s
-- then
INSERT INTO persons1_segments (segment, doubling, first_row, rows)
VALUES ({{target}}, {{doubling}}, {{target_row}}, {{rows}})
