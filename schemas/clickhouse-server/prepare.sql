CREATE DATABASE IF NOT EXISTS replayer
-- then
-- include prepare
