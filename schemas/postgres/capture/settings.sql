-- What a log must have to be replayed: each setting with its value, the one that is wanted, and what for.
-- Of reset_val, as replayer's own session logs nothing.
SELECT s.name, s.reset_val AS value, s.source,
       CASE s.name
           WHEN 'log_destination' THEN
               CASE WHEN c.collected AND s.reset_val !~ 'csvlog|jsonlog'
                    THEN concat_ws(',', nullif(s.reset_val, ''), 'csvlog') ELSE s.reset_val END
           WHEN 'log_line_prefix' THEN
               CASE WHEN c.collected OR s.reset_val ~ '%[mn]' AND s.reset_val ~ '%[pc]' AND s.reset_val ~ '%u.*%d'
                    THEN s.reset_val ELSE '%m [%p] %l %e %u@%d app=%a ' END
           WHEN 'log_min_duration_statement' THEN '0'
           WHEN 'log_connections' THEN CASE WHEN s.reset_val IN ('on', 'all') THEN s.reset_val ELSE 'on' END
           WHEN 'log_disconnections' THEN 'on'
           WHEN 'log_error_verbosity' THEN CASE s.reset_val WHEN 'terse' THEN 'default' ELSE s.reset_val END
           WHEN 'log_min_messages' THEN
               CASE WHEN s.reset_val IN ('fatal', 'panic') THEN 'warning' ELSE s.reset_val END
           WHEN 'log_min_error_statement' THEN
               CASE WHEN s.reset_val IN ('log', 'fatal', 'panic') THEN 'error' ELSE s.reset_val END
           ELSE '-1'
       END AS wanted,
       CASE s.name
           WHEN 'log_destination' THEN 'columns that are always the same, beside what is logged now'
           WHEN 'log_line_prefix' THEN 'time, process, user, database and application of each line'
           WHEN 'log_min_duration_statement' THEN 'every statement, with its duration'
           WHEN 'log_connections' THEN 'where sessions begin'
           WHEN 'log_disconnections' THEN 'where they end'
           WHEN 'log_parameter_max_length' THEN 'parameters in full'
           WHEN 'log_parameter_max_length_on_error' THEN 'also those of statements that fail'
           WHEN 'log_error_verbosity' THEN 'parameters are in the DETAIL'
           WHEN 'log_min_messages' THEN 'statements are messages of the level LOG'
           ELSE 'the statements of errors'
       END AS why
FROM pg_settings AS s, (SELECT current_setting('logging_collector') = 'on' AS collected) AS c
WHERE s.name IN ('log_destination', 'log_line_prefix', 'log_min_duration_statement', 'log_connections',
                 'log_disconnections', 'log_parameter_max_length', 'log_parameter_max_length_on_error',
                 'log_error_verbosity', 'log_min_messages', 'log_min_error_statement')
ORDER BY s.name
