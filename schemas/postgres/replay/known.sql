-- A row if there is a database of that name: whether replayer made it.
SELECT EXISTS (
    SELECT FROM replayer.replayer_owned AS o WHERE o.kind = 'database' AND o.name = d.datname
) AS ours
FROM pg_database AS d
WHERE d.datname = :name
