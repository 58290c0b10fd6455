-- No row is read.
SELECT 1
