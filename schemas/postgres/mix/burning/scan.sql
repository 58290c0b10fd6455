-- As scan.sql, and text of the length of a row's goes through MD5 `burn` times, once and not for each row.
SELECT sum(scratch) + (SELECT
-- include parts/burn
FROM (SELECT repeat('0123456789abcdef', 64) AS filler OFFSET 0) AS made) FROM {{table}}
