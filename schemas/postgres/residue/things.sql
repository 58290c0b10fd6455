-- What replayer wrote down that it made, with the bytes that this takes.
SELECT o.kind, o.name,
       CASE o.kind
           WHEN 'database' THEN coalesce(
               (SELECT pg_database_size(d.oid) FROM pg_database AS d WHERE d.datname = o.name), 0)
           ELSE coalesce(
               (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c
                WHERE c.relnamespace = 'replayer'::regnamespace AND c.relkind = 'r'
                  AND (c.relname = o.name OR o.kind = 'table'
                       AND c.relname ~ ('^' || o.name || '_(build|doublings|segments|s[0-9]+(_[a-z]+)?)$'))), 0)
       END::bigint AS bytes
FROM replayer.replayer_owned AS o
ORDER BY o.kind DESC, length(o.name), o.name
