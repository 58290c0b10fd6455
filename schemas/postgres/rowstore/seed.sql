CREATE TABLE persons1_s1 AS
-- include parts/first_rows
