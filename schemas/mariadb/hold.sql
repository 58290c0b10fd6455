-- A session has no name here.
CREATE TABLE IF NOT EXISTS replayer.replayer_holder (
    session bigint NOT NULL,
    name    varchar(255) NOT NULL,
    since   datetime NOT NULL
) ENGINE = InnoDB
-- then
DELETE FROM replayer.replayer_holder
-- then
INSERT INTO replayer.replayer_holder (session, name, since)
VALUES (CONNECTION_ID(), :holder, UTC_TIMESTAMP())
