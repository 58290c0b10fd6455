-- As MemSQL 5 has it: the columnstore is an index, and the only one beside the shard key.
CREATE TABLE persons1 (
    n        BIGINT NOT NULL,
    id       BIGINT NOT NULL,
    lastname VARCHAR(255),
    `time`   DATETIME(6),
    KEY (id) USING CLUSTERED COLUMNSTORE,
    SHARD KEY (n)
)
