UPDATE {{table}} SET scratch = scratch + 1 WHERE mykey BETWEEN :first AND :last
