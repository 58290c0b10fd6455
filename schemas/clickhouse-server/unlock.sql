-- Only one's own lock: another's table is not empty, and is refused to be dropped.
ALTER TABLE replayer.replayer_lock
DELETE WHERE session = toInt64OrZero(splitByChar(' ', getSetting('log_comment'))[3])
SETTINGS mutations_sync = 2
-- then
DROP TABLE IF EMPTY replayer.replayer_lock SYNC
