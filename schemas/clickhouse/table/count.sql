-- A checksum of every value of every column, which no engine has ready: all of the table is read.
-- count() of rows alone would be answered from what the parts say of themselves.
SELECT toInt64(count()) AS rows,
       toInt64(sum(id)) AS id_sum,
       toInt64(sum(length(lastname) + reinterpretAsUInt8(substring(lastname, length(lastname), 1)))) AS lastname_sum,
       toInt64(sum(toSecond(time) * 1000000 + toUnixTimestamp64Micro(time) % 1000000)) AS time_sum
FROM persons1
