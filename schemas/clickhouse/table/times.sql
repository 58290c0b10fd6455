-- What time_sum of table/count must be: all rows of a doubling have one time.
SELECT toInt64(sum(
           if(doubling = 0, assumeNotNull(rows), intDiv(assumeNotNull(rows), 2))
           * (toSecond(began) * 1000000 + toUnixTimestamp64Micro(began) % 1000000)
       )) AS time_sum
FROM persons1_doublings
WHERE rows IS NOT NULL
