-- How the table was asked for, its last whole doubling and how many rows that one made.
SELECT b.layout AS layout, b.compression AS compression, b.segment_rows AS segment_rows,
       b.rows_wanted AS rows_wanted, d.doubling AS doubling, d.rows AS rows
FROM persons1_build AS b
LEFT JOIN (
    SELECT toNullable(doubling) AS doubling, rows FROM persons1_doublings
    WHERE rows IS NOT NULL
    ORDER BY doubling DESC
    LIMIT 1
) AS d ON 1 = 1
