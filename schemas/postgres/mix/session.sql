-- Plans are made once and pinned, as those of the SLOB sessions are.
SET plan_cache_mode = force_generic_plan
-- then
SET enable_seqscan = off
-- then
SET enable_bitmapscan = off
-- then
SET max_parallel_workers_per_gather = 0
