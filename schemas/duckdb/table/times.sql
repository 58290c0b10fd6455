-- What time_sum of table/count must be: all rows of a doubling have one time.
SELECT CAST(sum(
           (CASE WHEN doubling = 0 THEN "rows" ELSE "rows" // 2 END) * microsecond(began)
       ) AS BIGINT) AS time_sum
FROM persons1_doublings
WHERE "rows" IS NOT NULL
