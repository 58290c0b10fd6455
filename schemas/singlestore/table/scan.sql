SELECT AVG(id) AS avg FROM persons1
