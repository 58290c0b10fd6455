INSERT INTO {{table}} (mykey, scratch, filler)
SELECT :first, 0 * coalesce(
-- include parts/burn
, 0), left(filler, CAST(:last AS int))
FROM (SELECT repeat('0123456789abcdef', 256) AS filler OFFSET 0) AS made
