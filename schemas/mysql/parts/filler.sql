-- MySQL 9 has no MD5() of its own any more.
LEFT(REPEAT(SHA2(spot, 256), 127), 8073)
