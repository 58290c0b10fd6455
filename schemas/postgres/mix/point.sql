-- One row by its key; `burn` times 4 KiB of its text go through MD5, which costs CPU and nothing else.
SELECT scratch +
-- include parts/burn
FROM {{table}} WHERE mykey = :first
