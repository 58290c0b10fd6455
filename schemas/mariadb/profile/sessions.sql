-- Transactions that are open while their client does nothing.
SELECT COUNT(IF(trx_query IS NULL AND trx_mysql_thread_id <> 0, 1, NULL)) AS sessions_idle_in_transaction
FROM information_schema.innodb_trx
