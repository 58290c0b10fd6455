-- What each form of statement has cost so far, where performance_schema is on; it counts each schema.
SELECT digest AS id, MAX(LEFT(digest_text, 200)) AS statement,
       CAST(SUM(count_star) AS DOUBLE) AS calls, SUM(sum_timer_wait) / 1e12 AS seconds,
       CAST(SUM(sum_rows_sent + sum_rows_affected) AS DOUBLE) AS `rows`,
       CAST(SUM(sum_rows_examined) AS DOUBLE) AS rows_examined,
       SUM(sum_lock_time) / 1e12 AS lock_seconds,
       CAST(SUM(sum_created_tmp_disk_tables) AS DOUBLE) AS temp_tables
FROM performance_schema.events_statements_summary_by_digest
WHERE (schema_name = DATABASE() OR schema_name LIKE 'replayer%') AND digest IS NOT NULL
GROUP BY digest
