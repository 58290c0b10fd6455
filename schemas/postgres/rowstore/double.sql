-- The commit that publishes the doubling waits for the disk, and with it for all that was written
-- before: the commits of single segments need not.
SET LOCAL synchronous_commit = off
-- then
-- CREATE TABLE AS and not INSERT: it appends strictly, where an INSERT may put a short row into a gap of
-- an earlier page, and the stored order is what numbers the rows.  It also writes no WAL for the rows
-- when wal_level is minimal.
CREATE TABLE persons1_s{{target}} AS
SELECT id + n AS id,
       (lastname || n)::varchar(255) AS lastname,
       (SELECT began FROM persons1_doublings WHERE doubling = {{doubling}}) AS "time"
FROM (
    SELECT id, lastname, row_number() OVER () + {{first_row}} AS n FROM persons1_s{{source}}
) AS s
-- then
INSERT INTO persons1_segments (segment, doubling, first_row, rows)
VALUES ({{target}}, {{doubling}}, {{target_row}}, {{rows}})
