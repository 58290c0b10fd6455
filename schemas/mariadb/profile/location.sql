-- Where the server's files are, and what tells whether that is on the machine of the one who asks.
SELECT @@datadir AS directory,
       @@pid_file AS pid_file,
       UNIX_TIMESTAMP(SYSDATE(6)) - variable_value AS started
-- include parts/status
WHERE variable_name = 'UPTIME'
