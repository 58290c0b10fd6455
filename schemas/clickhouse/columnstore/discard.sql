ALTER TABLE persons1
DELETE WHERE n > (SELECT max(first_row) FROM persons1_segments WHERE segment = {{segment}})
         AND n <= (SELECT max(first_row + rows) FROM persons1_segments WHERE segment = {{segment}})
-- then
ALTER TABLE persons1_segments DELETE WHERE segment = {{segment}}
