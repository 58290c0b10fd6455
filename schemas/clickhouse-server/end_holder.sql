-- A lock that a killed replayer left.
DROP TABLE IF EXISTS replayer.replayer_lock SYNC
