-- The plan of a work unit.
EXPLAIN SELECT SUM(scratch) FROM {{table}} WHERE mykey BETWEEN 1 AND {{work_unit}}
