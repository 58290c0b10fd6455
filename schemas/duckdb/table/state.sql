-- How the table was asked for, its last whole doubling and how many rows that one made.
SELECT b.layout, b.compression, b.segment_rows, b.rows_wanted, d.doubling, d."rows"
FROM persons1_build AS b
LEFT JOIN (
    SELECT doubling, "rows" FROM persons1_doublings
    WHERE "rows" IS NOT NULL
    ORDER BY doubling DESC
    LIMIT 1
) AS d ON true
