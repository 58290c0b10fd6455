SELECT /*+ SET_VAR(group_concat_max_len = 1048576) */
       wait,
       CASE WHEN own THEN 'own'
            WHEN wait = 'Sleep' OR wait LIKE '% net' OR wait LIKE '% client' THEN 'client'
            WHEN wait = 'row lock' OR wait LIKE 'Waiting for % lock' THEN 'lock'
            WHEN wait LIKE '%ommit%' OR wait = 'waiting for handler commit' THEN 'log'
            ELSE '' END AS part,
       0 AS named,
       GROUP_CONCAT(CONCAT(id, ':', thread) SEPARATOR ' ') AS sessions
FROM (
    SELECT p.processlist_id AS id, p.thread_os_id AS thread, p.processlist_id = CONNECTION_ID() AS own,
           CASE WHEN t.trx_id IS NOT NULL THEN 'row lock'
                WHEN p.processlist_command = 'Sleep' THEN 'Sleep'
                ELSE COALESCE(p.processlist_state, '') END AS wait
    FROM performance_schema.threads AS p
    LEFT JOIN information_schema.innodb_trx AS t
        ON t.trx_mysql_thread_id = p.processlist_id AND t.trx_state = 'LOCK WAIT'
    WHERE p.type = 'FOREGROUND' AND (p.processlist_db = DATABASE() OR p.processlist_db LIKE 'replayer%')
) AS watched
GROUP BY wait, own
