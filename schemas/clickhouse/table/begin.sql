-- One timestamp for all rows of a doubling.
ALTER TABLE persons1_doublings DELETE WHERE doubling = {{doubling}}
-- then
INSERT INTO persons1_doublings (doubling, began) SELECT {{doubling}}, now64(6)
