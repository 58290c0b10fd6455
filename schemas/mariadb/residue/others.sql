-- What lies in replayer's database beside its list: once all that it made is gone, somebody else's.
SELECT table_name AS name
FROM information_schema.tables
WHERE table_schema = 'replayer' AND table_name NOT IN ('replayer_owned', 'replayer_holder')
UNION ALL
SELECT routine_name FROM information_schema.routines WHERE routine_schema = 'replayer'
UNION ALL
SELECT event_name FROM information_schema.events WHERE event_schema = 'replayer'
ORDER BY name
