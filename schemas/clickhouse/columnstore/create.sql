-- n numbers all rows from 1.  A partition of 327,680 has 21 files, so that 50,331,648 rows have 3,234:
-- MemSQL's table of the seeds had 3,240.  No part is merged by itself, as none is that small (SYSTEM STOP
-- MERGES would stop mutations as well, and is forgotten by a restart).
DROP TABLE IF EXISTS persons1 SYNC
-- then
CREATE TABLE persons1 (n UInt64 CODEC(DoubleDelta, LZ4), id Int64, lastname String, time DateTime64(6))
ENGINE = MergeTree
PARTITION BY intDiv(n - 1, 327680)
ORDER BY n
SETTINGS min_bytes_for_wide_part = 0, min_rows_for_wide_part = 0, parts_to_throw_insert = 100000,
         max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1,
         parts_to_delay_insert = 100000, max_parts_in_total = 1000000
