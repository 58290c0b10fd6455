-- What this user's sessions that have a statement under way do, in whatever database, and how many
-- wait for a row's lock, which are among those that are `Updating`.
SELECT 'Lock:row' AS wait, CAST(variable_value AS SIGNED) AS sessions
-- include parts/status
WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS' AND variable_value > 0
UNION ALL
SELECT COALESCE(NULLIF(state, ''), 'CPU'), COUNT(*)
FROM information_schema.processlist
WHERE command IN ('Execute', 'Query') AND id <> CONNECTION_ID()
  AND user = SUBSTRING_INDEX(USER(), '@', 1)
GROUP BY 1
