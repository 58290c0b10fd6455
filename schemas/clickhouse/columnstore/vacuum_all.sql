-- The parts that a partition has of earlier doublings become one: what is walked and scanned stays so.
SYSTEM START MERGES
-- then
OPTIMIZE TABLE persons1 FINAL
-- then
SYSTEM STOP MERGES
