-- Bytes of all segments: every fork of the tables, their TOAST tables and indexes.
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes
FROM pg_class AS c
WHERE c.relnamespace = to_regnamespace(current_schema())
  AND c.relkind = 'r'
  AND c.relname ~ '^persons1_s[0-9]+'
