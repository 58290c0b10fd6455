SELECT SUM(scratch) FROM {{table}} FORCE INDEX (mykey) WHERE mykey BETWEEN :first AND :last
