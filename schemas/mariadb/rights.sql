-- What needs a right that not every user has: the verb, in words, whether this user has it, and what gives it.
SELECT needed.verb, needed.what,
       EXISTS (
           SELECT 1 FROM information_schema.user_privileges AS own
           WHERE own.privilege_type = needed.privilege
             AND own.grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
       ) OR EXISTS (
           SELECT 1 FROM information_schema.table_privileges AS own
           WHERE own.privilege_type = needed.privilege
             AND CONCAT(own.table_schema, '.', own.table_name) = needed.place
             AND own.grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
       ) AS allowed,
       CONCAT('GRANT ', needed.privilege, ' ON ', needed.place, ' TO ''',
              REPLACE(CURRENT_USER(), '@', '''@'''), '''') AS grants
FROM (
    SELECT 'flush' AS verb, 'have it write everything out' AS what, 'SUPER' AS privilege, '*.*' AS place
    UNION ALL
    SELECT 'slob/layout', 'check the layout of the SLOB tables', 'SELECT', 'mysql.innodb_index_stats'
) AS needed
