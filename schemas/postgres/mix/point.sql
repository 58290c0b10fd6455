SELECT scratch FROM {{table}} WHERE mykey = :first
