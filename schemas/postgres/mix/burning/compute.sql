-- No row is read: text of the length of a row's goes through MD5 `burn` times.
SELECT
-- include parts/burn
FROM (SELECT repeat('0123456789abcdef', 64) AS filler OFFSET 0) AS made
