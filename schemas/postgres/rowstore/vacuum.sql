VACUUM (FREEZE, ANALYZE) persons1_s{{segment}}
