-- What a table looks like: rows (counted in the index where there is one), blocks, bytes with its
-- index, whether an index on mykey is there, and how far mykey follows the physical order.
SELECT (SELECT count(*) FROM {{table}}) AS rows,
       pg_relation_size(c.oid) / current_setting('block_size')::int AS blocks,
       pg_total_relation_size(c.oid) AS bytes,
       EXISTS (
           SELECT FROM pg_index AS i
           JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
           WHERE i.indrelid = c.oid AND i.indisvalid AND a.attname = 'mykey'
       ) AS indexed,
       (
           SELECT s.correlation FROM pg_stats AS s
           WHERE s.schemaname = current_schema() AND s.tablename = c.relname
             AND s.attname = 'mykey'
       )::float8 AS correlation
FROM pg_class AS c
WHERE c.oid = to_regclass(:name)
