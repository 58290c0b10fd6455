-- Statistics of the arrays would cost unpacking them, and tell nothing.
ALTER TABLE persons1_s{{segment}}_id ALTER v SET COMPRESSION lz4, ALTER v SET STATISTICS 0
-- then
ALTER TABLE persons1_s{{segment}}_lastname ALTER v SET COMPRESSION lz4, ALTER v SET STATISTICS 0
-- then
ALTER TABLE persons1_s{{segment}}_time ALTER v SET COMPRESSION lz4, ALTER v SET STATISTICS 0
