-- What the sessions that have a statement under way do; only a lock is told from the rest for certain.
SELECT IF(t.trx_state = 'LOCK WAIT', 'Lock:row', COALESCE(NULLIF(p.state, ''), 'CPU')) AS wait,
       COUNT(*) AS sessions
FROM information_schema.processlist AS p
LEFT JOIN information_schema.innodb_trx AS t ON t.trx_mysql_thread_id = p.id
WHERE p.command IN ('Execute', 'Query') AND p.id <> CONNECTION_ID() AND p.db = DATABASE()
GROUP BY 1
