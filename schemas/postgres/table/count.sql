-- Every value of every column is counted, so that all of the table is read in any layout.
SELECT count(*) AS rows, count(id) AS ids, count(lastname) AS lastnames, count("time") AS times
FROM persons1
