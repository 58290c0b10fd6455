-- MySQL 9.6 and later have no MD5.
BENCHMARK(:burn, SHA2(filler, 256))
