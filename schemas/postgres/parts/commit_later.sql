-- The commit that publishes the doubling waits for the disk, and with it for all that was written
-- before: the commits of single segments need not.
SET LOCAL synchronous_commit = off
-- then
