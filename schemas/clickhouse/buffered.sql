-- Bytes in its own caches: marks and indexes, and what a user's settings have it keep of data.
SELECT toInt64(sum(value)) AS bytes
FROM system.metrics
WHERE metric IN ('MarkCacheBytes', 'PrimaryIndexCacheBytes', 'UncompressedCacheBytes',
                 'PageCacheBytes', 'QueryCacheBytes', 'QueryConditionCacheBytes',
                 'FilesystemCacheSize')
