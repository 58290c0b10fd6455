-- Rows that are still in memory become column files; then the log and the metadata; then the mergers.
-- The flush step itself has the disk take every file.
OPTIMIZE TABLE persons1 FLUSH
-- then
CALL replayer_merged()
-- then
SNAPSHOT DATABASE replayer
