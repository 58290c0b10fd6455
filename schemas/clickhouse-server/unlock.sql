-- Only one's own lock: another's table is not empty, and is refused to be dropped.  A mutation is done
-- by another thread, which does not know this session: the subquery is executed before.
ALTER TABLE replayer.replayer_lock
DELETE WHERE session = (SELECT toInt64OrZero(splitByChar(' ', getSetting('log_comment'))[3]))
SETTINGS mutations_sync = 2, mutations_execute_subqueries_on_initiator = 1
-- then
DROP TABLE IF EMPTY replayer.replayer_lock SYNC
