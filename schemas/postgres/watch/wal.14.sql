SELECT * FROM pg_stat_wal
