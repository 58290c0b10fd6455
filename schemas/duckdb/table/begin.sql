-- One timestamp for all rows of a doubling.
DELETE FROM persons1_doublings WHERE doubling = {{doubling}}
-- then
INSERT INTO persons1_doublings (doubling, began)
VALUES ({{doubling}}, CAST(get_current_timestamp() AS TIMESTAMP))
