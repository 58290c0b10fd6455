-- What a segment's rows hold: a column file is shared by segments, and compressed later.
SELECT CAST(SUM(16 + LENGTH(lastname) + 8) AS SIGNED) AS bytes
FROM persons1
WHERE n > {{target_row}} AND n <= {{target_row}} + {{rows}}
