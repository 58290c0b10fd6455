-- The heaps of the table and of the catalogue beside it, and their TOAST.
WITH tables AS (
    SELECT c.oid, c.reltoastrelid
    FROM pg_class AS c
    WHERE c.relnamespace = to_regnamespace(current_schema())
      AND c.relkind = 'r'
      AND c.relname ~ '^persons1(_|$)'
),
relations AS (
    SELECT oid FROM tables
    UNION ALL
    SELECT reltoastrelid FROM tables WHERE reltoastrelid <> 0
)
