-- What lets this user set the log's settings: from 15 on that can be had without being a superuser.
SELECT CASE WHEN current_setting('server_version_num')::int < 150000 THEN 'a superuser is needed'
            ELSE format('a superuser, or: GRANT ALTER SYSTEM ON PARAMETER log_destination, log_line_prefix, '
                        'log_min_duration_statement, log_connections, log_disconnections, log_parameter_max_length, '
                        'log_parameter_max_length_on_error, log_error_verbosity, log_min_messages, '
                        'log_min_error_statement TO %1$I; GRANT EXECUTE ON FUNCTION pg_reload_conf() TO %1$I; '
                        'GRANT SELECT ON pg_file_settings TO %1$I; '
                        'GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO %1$I; '
                        'GRANT pg_monitor TO %1$I', current_user) END AS grants
