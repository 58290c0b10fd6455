-- As point.sql, and the row's text goes through MD5 `burn` times, which costs CPU and nothing else.
SELECT scratch +
-- include parts/burn
FROM {{table}} FORCE INDEX (mykey) WHERE mykey = :first
