SELECT sum(scratch +
-- include parts/burn
) FROM {{table}} WHERE mykey BETWEEN :first AND :last
