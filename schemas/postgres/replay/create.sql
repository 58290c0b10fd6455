-- Written down first: a database that is there and is not listed was made by somebody else.
INSERT INTO replayer.replayer_owned (name, kind, made_by)
VALUES (:name, 'database', 'replay')
ON CONFLICT (name) DO NOTHING
-- then
CREATE DATABASE {{database}} TEMPLATE {{template}}
