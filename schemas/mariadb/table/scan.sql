-- Each segment by itself: through the view all rows would be copied into a temporary table first.
SET @replayer_statement = (
    SELECT CONCAT('SELECT SUM(s) / SUM(c) AS avg FROM (',
                  GROUP_CONCAT('SELECT SUM(id) AS s, COUNT(id) AS c FROM persons1_s', s.segment
                               ORDER BY s.segment SEPARATOR ' UNION ALL '),
-- include parts/each_segment
