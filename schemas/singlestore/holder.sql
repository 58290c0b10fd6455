-- Who is in the database; when and by which process is not known here.  UNVERIFIED.
SELECT id AS session, NULL AS name, user AS account, host AS address, NULL AS since, NULL AS heard
FROM information_schema.processlist
WHERE db = 'replayer' AND id <> CONNECTION_ID()
ORDER BY id
LIMIT 1
