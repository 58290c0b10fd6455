-- A statement is compiled when it is first met: that is done before anything is made cold.
SELECT AVG(id) AS avg FROM persons1
-- then
SELECT COUNT(*) AS `rows`,
       CAST(SUM(id) AS SIGNED) AS id_sum,
       CAST(SUM(CHAR_LENGTH(lastname) + ASCII(RIGHT(lastname, 1))) AS SIGNED) AS lastname_sum,
       CAST(SUM(SECOND(`time`) * 1000000 + MICROSECOND(`time`)) AS SIGNED) AS time_sum
FROM persons1
-- then
CALL replayer_compiled()
