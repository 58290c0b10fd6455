-- Which sessions wait for a lock, and each of those that they wait for.
SELECT waits.pid, whom.pid
FROM (SELECT DISTINCT pid FROM pg_locks WHERE NOT granted) AS waits,
     LATERAL unnest(pg_blocking_pids(waits.pid)) AS whom (pid)
