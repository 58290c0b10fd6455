-- Empty itself: columnar tables inherit from it, so that the table is many files and several sessions
-- can fill them.
CREATE TABLE persons1 (id bigint, lastname varchar(255), "time" timestamp)
