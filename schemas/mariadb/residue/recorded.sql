-- Whether there is the list of what replayer made.
SELECT COUNT(*) > 0 AS recorded
FROM information_schema.tables
WHERE table_schema = 'replayer' AND table_name = 'replayer_owned'
