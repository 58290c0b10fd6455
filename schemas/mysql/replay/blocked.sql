-- Which sessions wait for a row's lock, and each of those that they wait for.
SELECT waits.processlist_id, whom.processlist_id
FROM performance_schema.data_lock_waits AS l
JOIN performance_schema.threads AS waits ON waits.thread_id = l.requesting_thread_id
JOIN performance_schema.threads AS whom ON whom.thread_id = l.blocking_thread_id
