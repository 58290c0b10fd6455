CREATE TABLE persons1 (id BIGINT, lastname VARCHAR, "time" TIMESTAMP)
