-- The control: heap tables that inherit from this one, so that several sessions can fill them.
CREATE TABLE persons1 (id bigint, lastname varchar(255), "time" timestamp)
