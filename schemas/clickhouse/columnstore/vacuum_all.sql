-- The parts that a partition has of earlier doublings become one: what is walked and scanned stays so.
-- The merges are waited for; one that cannot be done is an error, and is not left out in silence.
OPTIMIZE TABLE persons1 FINAL SETTINGS optimize_throw_if_noop = 1
