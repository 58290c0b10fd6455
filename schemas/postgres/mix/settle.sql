-- Up to version 14 a session sends its counts when a statement ends, at most twice a second.
SELECT pg_sleep(0.6)
