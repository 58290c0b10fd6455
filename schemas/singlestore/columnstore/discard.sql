DELETE FROM persons1
WHERE n > (SELECT MAX(first_row) FROM persons1_segments WHERE segment = {{segment}})
  AND n <= (SELECT MAX(first_row + `rows`) FROM persons1_segments WHERE segment = {{segment}})
-- then
DELETE FROM persons1_segments WHERE segment = {{segment}}
