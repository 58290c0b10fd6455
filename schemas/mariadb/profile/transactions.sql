-- Statements that are transactions of their own are counted here only, where performance_schema is on.
SELECT NULLIF(t.count_star, 0) - s.variable_value AS commits
FROM performance_schema.events_transactions_summary_global_by_event_name AS t
CROSS JOIN information_schema.global_status AS s
WHERE t.event_name = 'transaction' AND s.variable_name = 'COM_ROLLBACK'
