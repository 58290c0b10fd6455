-- Of `last` bytes, beside the two numbers.
INSERT INTO {{table}} (mykey, scratch, filler)
SELECT :first, 0 *
-- include parts/burn
, LEFT(filler, :last)
FROM (SELECT REPEAT('0123456789abcdef', 512) AS filler) AS made
