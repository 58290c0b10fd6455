SELECT UNIX_TIMESTAMP(SYSDATE(6)) AS at, NULL AS transactions,
       MAX(IF(variable_name = 'QUESTIONS', variable_value, NULL)) AS statements,
       MAX(IF(variable_name = 'BYTES_RECEIVED', variable_value, NULL)) AS bytes
-- include parts/status
