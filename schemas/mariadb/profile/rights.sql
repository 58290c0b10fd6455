-- What is not to be seen by every user or on every server: in words, whether it is, and what helps.
SELECT 'sizes and open transactions' AS what,
       EXISTS (
           SELECT 1 FROM information_schema.user_privileges AS own
           WHERE own.privilege_type = 'PROCESS'
             AND own.grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
       ) AS allowed,
       CONCAT('GRANT PROCESS ON *.* TO ''', REPLACE(CURRENT_USER(), '@', '''@'''), '''') AS grants
UNION ALL
SELECT 'how many transactions are committed', @@performance_schema,
       'performance_schema = ON and performance-schema-instrument = ''transaction=ON'' in the server''s configuration'
