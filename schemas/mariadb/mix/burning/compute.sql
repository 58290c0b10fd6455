-- No row is read: text of the length of a row's goes through MD5 `burn` times.
SELECT
-- include parts/burn
FROM (SELECT REPEAT('0123456789abcdef', 504) AS filler) AS made
