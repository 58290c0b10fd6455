-- Where the server's files are, and what is in one of them that no other server has: its own number.
SELECT @@datadir AS directory,
       'auto.cnf' AS file,
       CONCAT('[auto]\nserver-uuid=', @@server_uuid, '\n') AS content,
       NULL AS process,
       @@pid_file AS pid_file
