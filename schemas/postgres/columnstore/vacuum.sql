-- ANALYZE costs nothing here: the arrays have a statistics target of 0.
VACUUM (FREEZE, ANALYZE) persons1_s{{segment}}_id, persons1_s{{segment}}_lastname,
                         persons1_s{{segment}}_time
