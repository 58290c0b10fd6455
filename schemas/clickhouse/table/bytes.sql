-- Bytes of the parts in use.
SELECT toInt64(sum(bytes_on_disk)) AS bytes
FROM system.parts
WHERE database = 'replayer' AND table = 'persons1' AND active
