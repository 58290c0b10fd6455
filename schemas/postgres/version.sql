SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::int / 10000 AS major
