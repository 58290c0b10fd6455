-- Who holds the lock; what this user may not see of a session is NULL.
SELECT u.session, h.name, p.user AS account, p.host AS address,
       DATE_FORMAT(h.since, '%Y-%m-%d %H:%i:%s') AS since, p.time AS heard
FROM (SELECT IS_USED_LOCK('replayer') AS session) AS u
LEFT JOIN replayer.replayer_holder AS h ON h.session = u.session
LEFT JOIN information_schema.processlist AS p ON p.id = u.session
WHERE u.session IS NOT NULL
