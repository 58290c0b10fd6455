-- InnoDB wants at least two rows to fit on a page, so a row is just short of half of one: a page with
-- two has 10 bytes left.  `load` splits these, and MERGE_THRESHOLD keeps InnoDB from joining them.
INSERT INTO replayer_owned (name, kind, made_by) VALUES (:name, 'slob', :made_by)
ON DUPLICATE KEY UPDATE kind = VALUES(kind), made_by = VALUES(made_by)
-- then
CREATE TABLE {{table}} (
    id      bigint NOT NULL,
    mykey   bigint NOT NULL,
    scratch bigint NOT NULL,
    filler  varchar(8073) CHARACTER SET latin1 NOT NULL,
    PRIMARY KEY (id) COMMENT 'MERGE_THRESHOLD=1'
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC STATS_PERSISTENT = 1 STATS_AUTO_RECALC = 0
-- then
BEGIN
