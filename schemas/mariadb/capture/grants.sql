SELECT 'GRANT SUPER ON *.* gives the right' AS grants
