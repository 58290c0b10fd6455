-- A checksum of every value of every column, which no engine has ready: all of the table is read.  What
-- each sum must be is said in the step; time_sum is of microseconds within the minute (times.sql).
-- Each segment by itself: through the view all rows would be copied into a temporary table first.
SET @replayer_statement = (
    SELECT CONCAT('SELECT CAST(SUM(a) AS SIGNED) AS `rows`, CAST(SUM(i) AS SIGNED) AS id_sum, ',
                  'CAST(SUM(l) AS SIGNED) AS lastname_sum, CAST(SUM(t) AS SIGNED) AS time_sum FROM (',
                  GROUP_CONCAT('SELECT COUNT(*) AS a, SUM(id) AS i, ',
                               'SUM(CHAR_LENGTH(lastname) + ASCII(RIGHT(lastname, 1))) AS l, ',
                               'SUM(SECOND(`time`) * 1000000 + MICROSECOND(`time`)) AS t ',
                               'FROM persons1_s', s.segment
                               ORDER BY s.segment SEPARATOR ' UNION ALL '),
-- include parts/each_segment
