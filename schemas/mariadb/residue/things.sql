-- What replayer wrote down that it made, with the bytes that this takes.
SELECT o.kind, o.name, CAST(COALESCE(SUM(t.data_length + t.index_length + IF(@@GLOBAL.innodb_file_per_table, t.data_free, 0)), 0) AS SIGNED) AS bytes
FROM replayer.replayer_owned AS o
LEFT JOIN information_schema.tables AS t
       ON t.table_type = 'BASE TABLE' AND CASE o.kind
              WHEN 'database' THEN t.table_schema = o.name
              WHEN 'table' THEN t.table_schema = 'replayer'
                   AND t.table_name REGEXP CONCAT('^', o.name, '_(build|doublings|segments|s[0-9]+)$')
              ELSE t.table_schema = 'replayer' AND t.table_name = o.name
          END
GROUP BY o.kind, o.name
ORDER BY o.kind DESC, LENGTH(o.name), o.name
