FROM (
    WITH RECURSIVE s AS (
        SELECT CAST(:low AS SIGNED) AS x UNION ALL SELECT x + 1 FROM s WHERE x + 1 < :high
    )
    SELECT x FROM s
) AS numbers
