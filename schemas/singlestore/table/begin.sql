-- One timestamp for all rows of a doubling, from the server's clock.
DELETE FROM persons1_doublings WHERE doubling = {{doubling}}
-- then
INSERT INTO persons1_doublings (doubling, began) VALUES ({{doubling}}, NOW(6))
