-- What is not to be seen by every user: in words, whether this one sees it, and what helps.
SELECT 'what other users'' sessions do' AS what,
       pg_has_role('pg_read_all_stats', 'USAGE') AS allowed,
       format('GRANT pg_monitor TO %I', current_user) AS grants
UNION ALL
SELECT 'where the server''s files are', pg_has_role('pg_read_all_settings', 'USAGE'),
       format('GRANT pg_monitor TO %I', current_user)
