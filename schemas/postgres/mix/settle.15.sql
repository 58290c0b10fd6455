-- The counts of a session are written when this statement ends, not up to a second later.
SELECT pg_stat_force_next_flush()
