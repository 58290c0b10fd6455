-- What a table looks like: rows (counted in the index where there is one), leaf pages of the table,
-- bytes with its index, whether an index on mykey is there, and how far mykey follows the physical
-- order.
SELECT k.`rows`,
       (
           SELECT CAST(stat_value AS SIGNED) FROM mysql.innodb_index_stats
           WHERE database_name = DATABASE() AND table_name = :name
             AND index_name = 'PRIMARY' AND stat_name = 'n_leaf_pages'
       ) AS blocks,
       t.data_length + t.index_length AS bytes,
       EXISTS (
           SELECT 1 FROM information_schema.statistics
           WHERE table_schema = DATABASE() AND table_name = :name
             AND column_name = 'mykey' AND seq_in_index = 1
       ) AS indexed,
       k.correlation
FROM (
    SELECT COUNT(*) AS `rows`,
           (AVG(mykey * (id * 1e0)) - AVG(mykey * 1e0) * AVG(id * 1e0))
           / (STDDEV_POP(mykey) * STDDEV_POP(id)) AS correlation
    FROM {{table}}
) AS k, information_schema.tables AS t
WHERE t.table_schema = DATABASE() AND t.table_name = :name
