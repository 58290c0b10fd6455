-- Where the inserts go; it has one of the method's names, so whatever removes these removes it.
INSERT INTO replayer_owned (name, kind, made_by) VALUES (:name, 'slob', :made_by)
ON DUPLICATE KEY UPDATE kind = VALUES(kind), made_by = VALUES(made_by)
-- then
CREATE TABLE {{table}} (
    mykey   bigint NOT NULL,
    scratch bigint NOT NULL,
    filler  varchar(4000) CHARACTER SET latin1 NOT NULL,
    PRIMARY KEY (mykey)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
