-- Written down first: a database that is there and is not listed was made by somebody else.
INSERT IGNORE INTO replayer.replayer_owned (name, kind, made_by)
VALUES (:name, 'database', 'replay')
-- then
CREATE DATABASE {{database}}
