-- What lies in replayer's database beside its list: once all that it made is gone, somebody else's.
SELECT table_name AS name
FROM information_schema.tables
WHERE table_schema = 'replayer' AND table_name NOT IN ('replayer_owned', 'replayer_holder')
UNION ALL
-- A flush that was refused or cut leaves its procedure.
SELECT routine_name
FROM information_schema.routines
WHERE routine_schema = 'replayer' AND routine_name <> 'replayer_flush'
UNION ALL
SELECT event_name FROM information_schema.events WHERE event_schema = 'replayer'
ORDER BY name
