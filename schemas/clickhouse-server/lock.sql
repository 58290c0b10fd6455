-- No lock lives as long as a connection here: a table is the lock, which only one can make.  Who made it
-- is in its only row; whoever finds it empty found a holder that is about to write that.
CREATE DATABASE IF NOT EXISTS replayer
-- then
CREATE TABLE IF NOT EXISTS replayer.replayer_lock ENGINE = MergeTree ORDER BY tuple() AS
SELECT toInt64OrZero(splitByChar(' ', getSetting('log_comment'))[3]) AS session,
       :holder AS name, currentUser() AS account, now('UTC') AS since
-- then
SELECT count() = 1 AS locked
FROM replayer.replayer_lock
WHERE session = toInt64OrZero(splitByChar(' ', getSetting('log_comment'))[3])
