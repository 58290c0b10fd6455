-- Empty the server's buffers: those that were left are pinned by somebody.
SELECT buffers_skipped AS kept, 'pg_buffercache_evict_all' AS how
FROM {{schema}}.pg_buffercache_evict_all()
