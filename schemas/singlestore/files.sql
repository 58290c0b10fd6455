-- The column files of the table, which its leaf keeps beside the master's folder.  `file` is relative
-- to the node's own data directory.  UNVERIFIED on a server: `walk.path` reads .../data/blobs whole.
SELECT DISTINCT CONCAT('../../leaf/data/', file) AS path
FROM information_schema.columnar_segments
WHERE database_name = 'replayer' AND table_name = 'persons1'
