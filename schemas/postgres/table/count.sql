SELECT count(*) AS rows FROM persons1
