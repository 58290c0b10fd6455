-- n is the sort key: of each column the granules that have the range are read, in one thread.
SELECT sum(id) AS id_sum, sum(length(lastname)) AS lastname_bytes, max(time) AS latest
FROM {{table}}
WHERE n BETWEEN :first AND :last
SETTINGS max_threads = 1
