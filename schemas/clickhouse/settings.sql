-- The settings of statements that are not the defaults, and those that decide what a number means.
SELECT name, value FROM system.settings WHERE changed OR name IN ('max_threads', 'max_block_size')
ORDER BY name
