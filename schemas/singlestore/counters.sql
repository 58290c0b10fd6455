-- The server's clock and what its queries have read from disk, in pages of 4 KiB.  What they found in
-- memory is counted nowhere.  UNVERIFIED: what exactly disk_physical_read_b counts.
SELECT UNIX_TIMESTAMP(NOW(6)) AS clock,
       0 AS hits,
       CAST(COALESCE(SUM(disk_physical_read_b), 0) / 4096 AS SIGNED) AS `reads`
FROM information_schema.mv_query_activities_extended_cumulative
