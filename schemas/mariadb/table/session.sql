-- With both off, the first INSERT into an empty table writes whole pages, and undo for none of its rows.
SET unique_checks = 0
-- then
SET foreign_key_checks = 0
