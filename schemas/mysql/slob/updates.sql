-- Rows updated so far by the whole server; InnoDB changes a row where it is, so that none ever moves.
SELECT CAST(variable_value AS SIGNED) AS updated, CAST(variable_value AS SIGNED) AS hot
FROM performance_schema.global_status
WHERE variable_name = 'Handler_update'
