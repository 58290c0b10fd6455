-- A segment is one table for each column, with one row: the values as an array in TOAST, and their
-- smallest and largest.  A column whose values are all the same needs no array.
CREATE TABLE persons1_s{{segment}}_id (minimum bigint, maximum bigint, v bigint[])
-- then
CREATE TABLE persons1_s{{segment}}_lastname (minimum text, maximum text, v varchar[])
-- then
CREATE TABLE persons1_s{{segment}}_time (minimum timestamp, maximum timestamp, v timestamp[])
