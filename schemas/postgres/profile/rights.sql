-- What needs a right that not every user has: in words, whether this user has it, and what gives it.
SELECT 'see what other users'' sessions do' AS what,
       pg_has_role('pg_read_all_stats', 'USAGE') AS allowed,
       format('GRANT pg_monitor TO %I', current_user) AS grants
UNION ALL
SELECT 'see where the server''s files are', pg_has_role('pg_read_all_settings', 'USAGE'),
       format('GRANT pg_monitor TO %I', current_user)
