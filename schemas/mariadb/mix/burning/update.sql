UPDATE {{table}} FORCE INDEX (mykey) SET scratch = scratch + 1 + 0 *
-- include parts/burn
WHERE mykey BETWEEN :first AND :last
