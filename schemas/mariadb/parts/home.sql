-- Everything that replayer makes lies in this database, and what it made is listed in replayer_owned.
CREATE DATABASE IF NOT EXISTS replayer CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
-- then
CREATE TABLE IF NOT EXISTS replayer.replayer_owned (
    name    varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    kind    varchar(64) NOT NULL,
    made_by varchar(255) NOT NULL,
    made_at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) ENGINE = InnoDB
