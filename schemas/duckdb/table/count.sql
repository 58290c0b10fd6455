-- A checksum of every value of every column, which no engine has ready: all of the table is read.
-- A lastname is ASCII: its bytes are its characters.
SELECT count(*) AS "rows",
       CAST(sum(id) AS BIGINT) AS id_sum,
       CAST(sum(strlen(lastname) + ascii(right(lastname, 1))) AS BIGINT) AS lastname_sum,
       CAST(sum(microsecond("time")) AS BIGINT) AS time_sum
FROM persons1
