-- Where the server's files are, and what is in one of them that no other server has.
SELECT @@datadir AS directory,
       'replayer/db.opt' AS file,
       CONCAT('default-character-set=', default_character_set_name,
              '\ndefault-collation=', default_collation_name,
              '\ncomment=', schema_comment, '\n') AS content,
       NULL AS process,
       @@pid_file AS pid_file
FROM information_schema.schemata
WHERE schema_name = 'replayer'
