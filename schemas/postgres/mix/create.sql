-- Where the inserts go; it has one of the method's names, so whatever removes these removes it.
CREATE TABLE {{table}} (
    mykey bigint NOT NULL PRIMARY KEY,
    scratch bigint NOT NULL,
    filler text NOT NULL
)
-- then
ALTER TABLE {{table}} ALTER COLUMN filler SET STORAGE PLAIN
-- then
INSERT INTO replayer_owned (name, kind, made_by) VALUES (:name, 'slob', :made_by)
ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, made_by = excluded.made_by
