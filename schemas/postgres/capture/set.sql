-- The statement that gives a setting a value, NULL: none of its own any more.
SELECT CASE WHEN CAST(:value AS text) IS NULL THEN format('ALTER SYSTEM RESET %I', CAST(:name AS text))
            ELSE format('ALTER SYSTEM SET %I = %L', CAST(:name AS text), CAST(:value AS text)) END AS statement
