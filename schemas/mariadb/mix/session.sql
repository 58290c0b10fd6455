-- With autocommit every statement is a transaction of its own.
SET autocommit = 1
