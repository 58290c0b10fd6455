CREATE TABLE persons1_s1 USING columnar AS
-- include parts/first_rows
