-- A removal that was cut short may have left it.
DROP TABLE IF EXISTS persons1
