-- Of `last` bytes, beside the two numbers.
INSERT INTO {{table}} (mykey, scratch, filler)
VALUES (:first, 0, left(repeat('0123456789abcdef', 256), CAST(:last AS int)))
