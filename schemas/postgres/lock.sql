-- Keeps other replayers out for as long as this connection lives.  An advisory lock belongs to one
-- database, but those of all databases are seen: two runs on one server would measure each other.
-- include parts/lock
SELECT pg_try_advisory_lock(1919250540, 1634302322)
   AND NOT EXISTS (
       SELECT FROM pg_locks
       WHERE locktype = 'advisory' AND classid = 1919250540 AND objid IN (1634302322, 1634302323)
         AND granted AND pid <> pg_backend_pid()
   ) AS locked
