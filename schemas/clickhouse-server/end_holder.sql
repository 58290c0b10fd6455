DROP TABLE IF EXISTS replayer.replayer_lock SYNC
