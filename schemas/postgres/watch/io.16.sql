SELECT * FROM pg_stat_io
