-- A checksum of every value of every column, which no engine has ready: all of the table is read.
SELECT COUNT(*) AS `rows`,
       CAST(SUM(id) AS SIGNED) AS id_sum,
       CAST(SUM(CHAR_LENGTH(lastname) + ASCII(RIGHT(lastname, 1))) AS SIGNED) AS lastname_sum,
       CAST(SUM(SECOND(`time`) * 1000000 + MICROSECOND(`time`)) AS SIGNED) AS time_sum
FROM persons1
