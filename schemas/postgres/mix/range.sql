SELECT sum(scratch) FROM {{table}} WHERE mykey BETWEEN :first AND :last
