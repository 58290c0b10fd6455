-- One timestamp for all rows of a doubling, from the server's clock.
INSERT INTO persons1_doublings (doubling, began)
VALUES ({{doubling}}, clock_timestamp()::timestamp)
ON CONFLICT (doubling) DO UPDATE SET began = excluded.began
