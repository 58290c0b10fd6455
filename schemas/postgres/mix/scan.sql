-- No index has the column: the planner is left with a sequential scan.
SELECT sum(scratch) FROM {{table}}
