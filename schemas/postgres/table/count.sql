-- A checksum of every value of every column, which no engine has ready: all of the table is read in any
-- layout.  id_sum, lastname_sum (characters, and the code of the last one) and time_sum (microseconds
-- within the minute, see times.sql) are what they must be, or the table is damaged.
SELECT count(*) AS rows,
       sum(id)::bigint AS id_sum,
       sum(length(lastname) + ascii(right(lastname, 1)))::bigint AS lastname_sum,
       sum(date_part('microseconds', "time")::bigint)::bigint AS time_sum
FROM persons1
