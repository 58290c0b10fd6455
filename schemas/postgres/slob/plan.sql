-- The plan of a work unit in this session.
PREPARE replayer_plan (bigint, bigint) AS
SELECT sum(scratch) FROM {{table}} WHERE mykey BETWEEN $1 AND $2
-- then
EXPLAIN (COSTS OFF) EXECUTE replayer_plan (1, {{work_unit}})
-- then
DEALLOCATE replayer_plan
