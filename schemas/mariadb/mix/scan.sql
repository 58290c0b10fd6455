-- In the order of the primary key, which is the physical one.
SELECT SUM(scratch) FROM {{table}} FORCE INDEX (PRIMARY)
