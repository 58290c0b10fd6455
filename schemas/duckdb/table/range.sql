-- Rows stand in the order of their numbers, from 0: row groups without the range are left out.
SELECT sum(id) AS id_sum, sum(strlen(lastname)) AS lastname_bytes, max("time") AS latest
FROM {{table}}
WHERE rowid BETWEEN :first - 1 AND :last - 1
