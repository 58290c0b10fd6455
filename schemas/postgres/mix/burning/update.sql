UPDATE {{table}} SET scratch = scratch + 1 + 0 * coalesce(
-- include parts/burn
, 0) WHERE mykey BETWEEN :first AND :last
