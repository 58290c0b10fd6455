-- A columnar table has no hint bits to write: there is nothing to freeze.
VACUUM (ANALYZE) persons1_s{{segment}}
