OPTIMIZE TABLE {{table}} FLUSH
-- then
ANALYZE TABLE {{table}}
