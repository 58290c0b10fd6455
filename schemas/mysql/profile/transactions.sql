-- The status variables of MySQL do not count statements by kind, performance_schema does.
SELECT t.count_star - s.rollbacks AS commits, s.*
FROM performance_schema.events_transactions_summary_global_by_event_name AS t
CROSS JOIN (
    SELECT SUM(IF(event_name = 'statement/sql/rollback', count_star, 0)) AS rollbacks,
           SUM(IF(event_name = 'statement/sql/select', count_star, 0)) AS selects,
           SUM(IF(event_name IN ('statement/sql/insert', 'statement/sql/insert_select', 'statement/sql/replace',
                                 'statement/sql/replace_select', 'statement/sql/load'), count_star, 0)) AS inserts,
           SUM(IF(event_name IN ('statement/sql/update', 'statement/sql/update_multi'), count_star, 0)) AS updates,
           SUM(IF(event_name IN ('statement/sql/delete', 'statement/sql/delete_multi'), count_star, 0)) AS deletes
    FROM performance_schema.events_statements_summary_global_by_event_name
    WHERE event_name LIKE 'statement/sql/%'
) AS s
WHERE t.event_name = 'transaction'
