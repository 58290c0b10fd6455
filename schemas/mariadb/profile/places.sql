-- What may be on another disk than the data: in words, and where it is, from the data directory on.
SELECT 'the log' AS what, @@innodb_log_group_home_dir AS path
UNION ALL
SELECT 'the binary log', @@log_bin_index
UNION ALL
SELECT 'undo tablespaces', @@innodb_undo_directory
