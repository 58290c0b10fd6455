-- Of `last` bytes, beside the two numbers.
INSERT INTO {{table}} (mykey, scratch, filler)
VALUES (:first, 0, LEFT(REPEAT('0123456789abcdef', 256), :last))
