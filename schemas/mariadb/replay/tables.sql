-- How many tables and views the database has.
SELECT COUNT(*) AS objects FROM information_schema.tables WHERE table_schema = DATABASE()
