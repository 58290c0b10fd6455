-- Rows of 1 KiB in the order of mykey, which lets a range of keys leave out all other segments.
DELETE FROM replayer_owned WHERE name = :name
-- then
INSERT INTO replayer_owned (name, kind, made_by) VALUES (:name, 'slob', :made_by)
-- then
CREATE TABLE {{table}} (
    mykey   BIGINT NOT NULL,
    scratch BIGINT NOT NULL,
    filler  VARCHAR(1024) NOT NULL,
    SORT KEY (mykey),
    SHARD KEY (mykey)
)
-- then
BEGIN
