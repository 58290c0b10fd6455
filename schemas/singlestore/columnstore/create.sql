-- n numbers all rows from 1; a range of it is a segment.
CREATE TABLE persons1 (
    n        BIGINT NOT NULL,
    id       BIGINT NOT NULL,
    lastname VARCHAR(255),
    `time`   DATETIME(6),
    SORT KEY (id),
    SHARD KEY (n)
)
