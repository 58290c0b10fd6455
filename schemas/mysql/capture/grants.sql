SELECT 'GRANT SYSTEM_VARIABLES_ADMIN ON *.* gives the right' AS grants
