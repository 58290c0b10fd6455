-- What replayer made is listed in replayer_owned.
CREATE TABLE IF NOT EXISTS replayer_owned (name VARCHAR, kind VARCHAR, made_by VARCHAR)
