-- The plan is pinned: a range of the index on mykey.
SET @replayer_access = 'index'
