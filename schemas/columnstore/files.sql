-- The files of every column and dictionary of the table, below /var/lib beside MariaDB's own folder.
SELECT DISTINCT CONCAT('../', SUBSTRING(f.filename, LENGTH('/var/lib/') + 1)) AS path
FROM information_schema.columnstore_columns AS c
JOIN information_schema.columnstore_files AS f
  ON f.object_id = c.object_id OR f.object_id = c.dictionary_object_id
WHERE c.table_schema = 'replayer' AND c.table_name REGEXP '^persons1_s[0-9]+$'
