-- Which sessions wait for a row's lock, and each of those that they wait for.  A thread of the server
-- itself has no number of a session.
SELECT waits.processlist_id, whom.processlist_id
FROM performance_schema.data_lock_waits AS l
JOIN performance_schema.threads AS waits ON waits.thread_id = l.requesting_thread_id
JOIN performance_schema.threads AS whom ON whom.thread_id = l.blocking_thread_id
WHERE waits.processlist_id IS NOT NULL AND whom.processlist_id IS NOT NULL
