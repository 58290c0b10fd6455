-- As scan.sql, and text of the length of a row's goes through MD5 `burn` times, once and not for each row.
SELECT SUM(scratch) + (SELECT
-- include parts/burn
FROM (SELECT REPEAT('0123456789abcdef', 504) AS filler) AS made) FROM {{table}} FORCE INDEX (PRIMARY)
