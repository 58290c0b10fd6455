-- Keeps other replayers out of this database, and those who need the whole server out of it: for a
-- run that measures nothing of the machine.
-- include parts/lock
SELECT pg_try_advisory_lock(1919250540, 1634302323)
   AND NOT EXISTS (
       SELECT FROM pg_locks
       WHERE locktype = 'advisory' AND classid = 1919250540 AND objid = 1634302322
         AND granted AND pid <> pg_backend_pid()
   ) AS locked
