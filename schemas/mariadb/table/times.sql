-- What time_sum of table/count must be: all rows of a doubling have one time.
SELECT CAST(SUM(
           IF(doubling = 0, `rows`, `rows` DIV 2) * (SECOND(began) * 1000000 + MICROSECOND(began))
       ) AS SIGNED) AS time_sum
FROM persons1_doublings
WHERE `rows` IS NOT NULL
