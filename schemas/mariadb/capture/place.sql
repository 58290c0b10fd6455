SELECT @@datadir AS directory, @@general_log_file AS file
