-- A row if there is a schema `replayer`: whether replayer made it.
SELECT to_regclass('replayer.replayer_owned') IS NOT NULL AS ours
FROM pg_namespace
WHERE nspname = 'replayer'
