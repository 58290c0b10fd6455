-- As point.sql, and `burn` times 4 KiB of the row's text go through MD5, which costs CPU and nothing else.
SELECT scratch +
-- include parts/burn
FROM {{table}} WHERE mykey = :first
