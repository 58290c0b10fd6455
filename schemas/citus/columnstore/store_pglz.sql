-- For the columnar tables that this transaction makes.
SET LOCAL columnar.compression = pglz
