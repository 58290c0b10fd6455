SELECT ltrim(version(), 'v') AS version, CAST(regexp_extract(version(), '\d+') AS BIGINT) AS major
