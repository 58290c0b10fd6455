-- The first blocks of a table, read into the server's own buffers: keys lie in them as in all others.
SELECT pg_prewarm('{{table}}'::regclass, 'buffer', 'main', 0, CAST(:last AS bigint))
