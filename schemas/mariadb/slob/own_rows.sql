-- Rows that this session has read so far, of whatever tables: of blocks no session has a count.
SELECT CAST(SUM(variable_value) AS SIGNED) AS `rows`
-- include parts/own_status
WHERE variable_name IN (
    'HANDLER_READ_FIRST', 'HANDLER_READ_KEY', 'HANDLER_READ_LAST', 'HANDLER_READ_NEXT',
    'HANDLER_READ_PREV', 'HANDLER_READ_RND', 'HANDLER_READ_RND_NEXT')
