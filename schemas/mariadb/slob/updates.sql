-- Rows updated so far by the whole server; InnoDB changes a row where it is, so that none ever moves to another page.
SELECT CAST(variable_value AS SIGNED) AS updated, CAST(variable_value AS SIGNED) AS hot
-- include parts/status
WHERE variable_name = 'HANDLER_UPDATE'
