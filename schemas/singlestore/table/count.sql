-- Every value of every column is counted, so that all of the table is read.
SELECT COUNT(*) AS `rows`, COUNT(id) AS ids, COUNT(lastname) AS lastnames, COUNT(`time`) AS times
FROM persons1
