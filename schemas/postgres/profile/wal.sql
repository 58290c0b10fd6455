-- Only how far the log has come: its position jumps over the rest of a file that is given up early.
SELECT pg_wal_lsn_diff(
           CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END,
           '0/0'
       )::float8 / 1e6 AS wal_mbps
