-- Bytes of all segments: the files of every column and dictionary.
SELECT CAST(COALESCE(SUM(f.file_size), 0) AS SIGNED) AS bytes
FROM information_schema.columnstore_columns AS c
JOIN information_schema.columnstore_files AS f
  ON f.object_id = c.object_id OR f.object_id = c.dictionary_object_id
WHERE c.table_schema = 'replayer' AND c.table_name REGEXP '^persons1_s[0-9]+$'
