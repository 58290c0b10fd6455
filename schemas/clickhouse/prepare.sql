-- What replayer made is listed in replayer_owned.
CREATE TABLE IF NOT EXISTS replayer.replayer_owned (name String, kind String, made_by String)
ENGINE = MergeTree ORDER BY name
