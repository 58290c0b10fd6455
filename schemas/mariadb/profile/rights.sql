-- What needs a right that not every user has: in words, whether this user has it, and what gives it.
SELECT 'see sizes and open transactions' AS what,
       EXISTS (
           SELECT 1 FROM information_schema.user_privileges AS own
           WHERE own.privilege_type = 'PROCESS'
             AND own.grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
       ) AS allowed,
       CONCAT('GRANT PROCESS ON *.* TO ''', REPLACE(CURRENT_USER(), '@', '''@'''), '''') AS grants
