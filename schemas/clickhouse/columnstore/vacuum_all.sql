-- The parts that a partition has of earlier doublings become one: what is walked and scanned stays so.
OPTIMIZE TABLE persons1 FINAL
