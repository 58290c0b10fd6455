SELECT SUM(scratch +
-- include parts/burn
) FROM {{table}} FORCE INDEX (mykey) WHERE mykey BETWEEN :first AND :last
