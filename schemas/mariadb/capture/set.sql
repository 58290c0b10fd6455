-- The statement that gives a setting a value.
SELECT CONCAT('SET GLOBAL ', :name, ' = ', QUOTE(:value)) AS statement
