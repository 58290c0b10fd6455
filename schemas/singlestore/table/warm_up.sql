-- A statement is compiled when it is first met: that is done before anything is made cold.
SELECT AVG(id) AS avg FROM persons1
-- then
SELECT COUNT(*) AS `rows`, COUNT(id) AS ids, COUNT(lastname) AS lastnames, COUNT(`time`) AS times
FROM persons1
-- then
CALL replayer_compiled()
