-- Statistics of the table as a whole, from a sample of all segments.
VACUUM (FREEZE, ANALYZE) persons1
