DROP TABLE persons1
