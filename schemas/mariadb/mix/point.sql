SELECT scratch FROM {{table}} FORCE INDEX (mykey) WHERE mykey = :first
