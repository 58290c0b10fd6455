-- Rows that wait in memory to become a part (none, as inserts are not asynchronous), and the merges and
-- mutations that still write parts of the table.
SELECT toInt64(
           (SELECT count() FROM system.asynchronous_inserts)
           + (SELECT count() FROM system.merges WHERE database = 'replayer' AND table = 'persons1')
           + (SELECT count() FROM system.mutations
              WHERE database = 'replayer' AND table = 'persons1' AND NOT is_done)
       ) AS dirty
