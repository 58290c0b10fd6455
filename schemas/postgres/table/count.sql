-- A checksum of every value of every column, which no engine has ready: all of the table is read in any
-- layout.  id_sum, lastname_sum (characters, and the code of the last one) and time_sum (microseconds
-- within the minute, see times.sql) are what they must be, or the table is damaged.
-- A lastname is ASCII: its bytes are its characters, and its last byte is the code of the last one.
-- length() and right() walk the text character by character: 1.7 times the time of the whole statement,
-- which made a cold scan a measurement of the processor.
SELECT count(*) AS rows,
       sum(id)::bigint AS id_sum,
       sum(octet_length(lastname)
           + get_byte(textsend(lastname), octet_length(lastname) - 1))::bigint AS lastname_sum,
       sum(date_part('microseconds', "time")::bigint)::bigint AS time_sum
FROM persons1
