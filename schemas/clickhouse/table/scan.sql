SELECT avg(id) AS avg FROM persons1
