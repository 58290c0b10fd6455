-- Statistics of the table as a whole, from a sample of all segments.
ANALYZE persons1
