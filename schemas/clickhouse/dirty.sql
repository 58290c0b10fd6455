-- Rows that wait in memory to become a part: none, as inserts are not asynchronous.
SELECT toInt64(count()) AS dirty FROM system.asynchronous_inserts
