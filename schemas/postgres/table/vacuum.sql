VACUUM (FREEZE, ANALYZE) persons1_build, persons1_doublings, persons1_segments
