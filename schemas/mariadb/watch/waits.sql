-- What sessions wait for, as the server calls it and as a part of an account, and which they are, with
-- their threads; what a thread does while it works is no wait, though it may sleep at it, and `own` is
-- this session.
SELECT wait,
       CASE WHEN own THEN 'own'
            WHEN wait = 'Sleep' OR wait LIKE '% net' OR wait LIKE '% client' THEN 'client'
            WHEN wait = 'row lock' OR wait LIKE 'Waiting for % lock' THEN 'lock'
            WHEN wait LIKE '%ommit%' THEN 'log'
            ELSE '' END AS part,
       0 AS named,
       GROUP_CONCAT(CONCAT(id, ':', thread) SEPARATOR ' ') AS sessions
FROM (
    SELECT p.id, p.tid AS thread, p.id = CONNECTION_ID() AS own,
           CASE WHEN t.trx_id IS NOT NULL THEN 'row lock'
                WHEN p.command = 'Sleep' THEN 'Sleep'
                ELSE COALESCE(p.state, '') END AS wait
    FROM information_schema.processlist AS p
    LEFT JOIN information_schema.innodb_trx AS t
        ON t.trx_mysql_thread_id = p.id AND t.trx_state = 'LOCK WAIT'
    WHERE (p.db = DATABASE() OR p.db LIKE 'replayer%')
) AS watched
GROUP BY wait, own
