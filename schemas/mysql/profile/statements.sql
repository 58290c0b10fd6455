SELECT CASE WHEN event_name = 'statement/sql/select' THEN 'select'
            WHEN event_name REGEXP 'insert|replace|load' THEN 'insert'
            WHEN event_name LIKE '%update%' THEN 'update'
            ELSE 'delete' END AS kind,
       SUM(count_star) AS calls,
       SUM(sum_rows_sent + sum_rows_affected) AS `rows`,
       SUM(sum_timer_wait) / 1e12 AS seconds
FROM performance_schema.events_statements_summary_global_by_event_name
WHERE event_name REGEXP '^statement/sql/(select|(insert|replace)(_select)?|load|(update|delete)(_multi)?)$'
GROUP BY kind
