-- Where the server's files are, and what is in one of them that no other server has.
SELECT current_setting('data_directory') AS directory,
       'postmaster.pid' AS file,
       content,
       split_part(content, E'\n', 1) AS process
FROM pg_read_file('postmaster.pid') AS content
