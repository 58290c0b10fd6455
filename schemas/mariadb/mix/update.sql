UPDATE {{table}} FORCE INDEX (mykey) SET scratch = scratch + 1 WHERE mykey BETWEEN :first AND :last
