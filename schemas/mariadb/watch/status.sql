-- What the server has counted so far, without what is no count.
SELECT LOWER(variable_name) AS name, CAST(variable_value AS DOUBLE) AS value
-- include parts/status
WHERE variable_name REGEXP '^(aria|bytes|com|created|handler|innodb|questions|select|sort|table|binlog|opened|uptime_since_flush)'
  AND variable_name NOT REGEXP '(pages_(data|dirty|free|misc|total|old)|bytes_(data|dirty)|page_size|current|checkpoint|lsn|max_|avg|num_open|history|mem_)'
  AND variable_value REGEXP '^[0-9]+$'
