-- Where the server's files are, and what tells whether that is on the machine of the one who asks.
SELECT current_setting('data_directory') AS directory,
       'postmaster.pid' AS pid_file,
       extract(epoch FROM pg_postmaster_start_time())::float8 AS started
