-- What has to be said of the server, what a log's lines will begin with where they are no columns, and what one line takes:
-- bytes beside the statement, how many times it is written, and how many lines a statement may have.
SELECT CASE WHEN NOT collected THEN
           'logging_collector is off, and only a restart can change that: the log stays where the server''s '
           || destination || ' goes, in lines with a prefix in place of columns'
       END AS sentence,
       CASE WHEN destination ~ 'csvlog|jsonlog' THEN ''
            WHEN prefix ~ '%[mn]' AND prefix ~ '%[pc]' AND prefix ~ '%u.*%d' THEN prefix
            ELSE '%m [%p] %l %e %u@%d app=%a ' END AS prefix,
       (destination ~ 'csvlog')::int * 230 + (destination ~ 'jsonlog')::int * 430
           + (destination ~ 'stderr|syslog')::int * 90 AS line_bytes,
       (destination ~ 'csvlog')::int + (destination ~ 'jsonlog')::int + (destination ~ 'stderr|syslog')::int AS copies,
       3 AS most_lines  -- parse, bind and execute
FROM (
    SELECT collected, prefix,
           CASE WHEN collected AND wanted !~ 'csvlog|jsonlog' THEN wanted || ',csvlog' ELSE wanted END AS destination
    FROM (
        SELECT current_setting('logging_collector') = 'on' AS collected, current_setting('log_destination') AS wanted,
               current_setting('log_line_prefix') AS prefix
    ) AS now
) AS soon
