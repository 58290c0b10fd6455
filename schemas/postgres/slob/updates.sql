-- Updated rows so far in all tables of the method, and those whose block was big enough (HOT).
SELECT coalesce(sum(n_tup_upd), 0)::bigint AS updated,
       coalesce(sum(n_tup_hot_upd), 0)::bigint AS hot
FROM pg_stat_user_tables
WHERE schemaname = current_schema() AND relname ~ '^pgio[0-9]+$'
