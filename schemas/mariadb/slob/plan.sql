-- The plan of a work unit in this session.
SET @replayer_statement = CONCAT(
    'EXPLAIN SELECT SUM(scratch) FROM {{table}} ',
    IF(@replayer_access = 'index', 'FORCE INDEX (mykey) ', ''),
    'WHERE mykey BETWEEN 1 AND {{work_unit}}')
-- then
PREPARE replayer_statement FROM @replayer_statement
-- then
EXECUTE replayer_statement
-- then
DROP PREPARE replayer_statement
