-- The rows from `low` to below `high`, numbered by five digits of base 8.  The sort key gives them their
-- order, so a permutation of the keys would be undone: `mask`, `shift` and the factors have no use here.
INSERT INTO {{table}} (mykey, scratch, filler)
SELECT :low + s.seq + 1, (:low + s.seq) * 7919 % 1000000000, REPEAT(MD5(CONCAT(:low + s.seq)), 32)
FROM (
    SELECT a.d + 8 * b.d + 64 * c.d + 512 * e.d + 4096 * f.d AS seq
    FROM (
        SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3
        UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7
    ) AS a,
    (
        SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3
        UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7
    ) AS b,
    (
        SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3
        UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7
    ) AS c,
    (
        SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3
        UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7
    ) AS e,
    (
        SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3
        UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7
    ) AS f
) AS s
WHERE s.seq < :high - :low AND :low + s.seq < :rows
