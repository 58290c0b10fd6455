-- What has to be said of the server, the beginning of a log's lines where they have one, and what one line takes:
-- bytes beside the statement, how many times it is written, and how many lines a statement may have.
SELECT 'the general log has statements when they arrive: durations are not in it, nor what a session with sql_log_off does' AS sentence,
       '' AS prefix, 40 AS line_bytes,
       IF(FIND_IN_SET('TABLE', @@log_output), 2, 1) AS copies,
       2 AS most_lines
