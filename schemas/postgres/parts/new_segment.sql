SELECT id + n AS id,
       (lastname || n)::varchar(255) AS lastname,
       (SELECT began FROM persons1_doublings WHERE doubling = {{doubling}}) AS "time"
FROM (
    SELECT id, lastname, row_number() OVER () + {{first_row}} AS n FROM persons1_s{{source}}
) AS s
-- then
INSERT INTO persons1_segments (segment, doubling, first_row, rows)
VALUES ({{target}}, {{doubling}}, {{target_row}}, {{rows}})
