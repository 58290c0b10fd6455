-- The stored order numbers the rows, so that a scan must begin at the first block and stay in one
-- process; and compiling would cost more than it saves in statements as short as these.
SET synchronize_seqscans = off
-- then
SET max_parallel_workers_per_gather = 0
-- then
SET jit = off
