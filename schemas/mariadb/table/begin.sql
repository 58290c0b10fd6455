-- One timestamp for all rows of a doubling, from the server's clock.
INSERT INTO persons1_doublings (doubling, began) VALUES ({{doubling}}, SYSDATE(6))
ON DUPLICATE KEY UPDATE began = VALUES(began)
