-- Where the log is; no file where the server itself does not write into one.
SELECT current_setting('data_directory') AS directory,
       CASE WHEN current_setting('logging_collector') <> 'on' THEN NULL
            WHEN current_setting('log_destination') ~ 'csvlog' THEN
                coalesce(pg_current_logfile('csvlog'), current_setting('log_directory') || '/*.csv')
            WHEN current_setting('log_destination') ~ 'jsonlog' THEN
                coalesce(pg_current_logfile('jsonlog'), current_setting('log_directory') || '/*.json')
            ELSE pg_current_logfile() END AS file
