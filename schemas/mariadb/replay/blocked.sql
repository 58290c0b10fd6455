-- Which sessions wait for a row's lock, and each of those that they wait for.
SELECT waits.trx_mysql_thread_id, whom.trx_mysql_thread_id
FROM information_schema.innodb_lock_waits AS l
JOIN information_schema.innodb_trx AS waits ON waits.trx_id = l.requesting_trx_id
JOIN information_schema.innodb_trx AS whom ON whom.trx_id = l.blocking_trx_id
