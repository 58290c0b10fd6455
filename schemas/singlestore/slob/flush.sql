CALL replayer_merged()
-- then
SNAPSHOT DATABASE replayer
