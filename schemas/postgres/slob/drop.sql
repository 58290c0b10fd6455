DROP PROCEDURE IF EXISTS {{table}}_slice
-- then
DROP TABLE IF EXISTS {{table}}
-- then
DELETE FROM replayer_owned
WHERE kind = 'slob' AND (name = '{{table}}' OR to_regclass(name) IS NULL)
