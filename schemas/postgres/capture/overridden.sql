-- Roles and databases with log settings of their own, which no setting of the server changes.
SELECT concat_ws(' in ', 'role ' || r.rolname, 'database ' || d.datname) AS whose, o.setting
FROM pg_db_role_setting AS s
CROSS JOIN LATERAL unnest(s.setconfig) AS o (setting)
LEFT JOIN pg_roles AS r ON r.oid = s.setrole
LEFT JOIN pg_database AS d ON d.oid = s.setdatabase
WHERE o.setting ~ '^log_(min_duration_statement|parameter_max_length|min_messages|min_error_statement|error_verbosity)='
