DROP PROCEDURE IF EXISTS {{table}}_slice
-- then
DROP TABLE IF EXISTS {{table}}
-- then
DELETE FROM replayer_owned WHERE name = '{{table}}' AND kind = 'slob'
