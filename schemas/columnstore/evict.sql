-- Empties the block cache of all its processes.  UNVERIFIED: what the function returns.
SELECT mcsflushcache() IS NULL AS kept, 'mcsflushcache()' AS how
