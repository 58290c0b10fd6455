-- Every value of every column is counted, so that all of the table is read.  Each segment by itself:
-- through the view all rows would be copied into a temporary table first.
SET @replayer_statement = (
    SELECT CONCAT('SELECT CAST(SUM(a) AS SIGNED) AS `rows`, CAST(SUM(i) AS SIGNED) AS ids, ',
                  'CAST(SUM(l) AS SIGNED) AS lastnames, CAST(SUM(t) AS SIGNED) AS times FROM (',
                  GROUP_CONCAT('SELECT COUNT(*) AS a, COUNT(id) AS i, COUNT(lastname) AS l, ',
                               'COUNT(`time`) AS t FROM persons1_s', s.segment
                               ORDER BY s.segment SEPARATOR ' UNION ALL '),
-- include parts/each_segment
