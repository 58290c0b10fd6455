-- The plan is pinned: an index scan, made once.  Left to itself the planner takes a bitmap heap scan
-- here, whose prefetching differs between versions and settings.
SET plan_cache_mode = force_generic_plan
-- then
SET enable_seqscan = off
-- then
SET enable_bitmapscan = off
