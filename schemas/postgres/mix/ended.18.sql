-- How many sessions of this database have ended so far: those that ever began, less those that are there.
SELECT d.sessions - (
    SELECT count(*)
    FROM pg_stat_activity AS a
    WHERE a.datid = d.datid
      AND a.backend_type = 'client backend'
) AS ended
FROM pg_stat_database AS d
WHERE d.datname = current_database()
