-- Who made the table that is the lock.  Whether it still lives is known only to its own machine, where
-- end_holder.sql removes what a killed one left.
SELECT session, name, account, '' AS address, toString(since) AS since, NULL AS heard
FROM replayer.replayer_lock
