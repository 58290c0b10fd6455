-- include parts/home
-- then
-- A mark in the file db.opt, new for every run: whoever finds it in a folder has found this server's.
SET @replayer_statement = CONCAT('ALTER DATABASE replayer COMMENT = ''', UUID(), '''')
-- then
PREPARE replayer_statement FROM @replayer_statement
-- then
EXECUTE replayer_statement
-- then
DROP PREPARE replayer_statement
