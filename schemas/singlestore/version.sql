SELECT @@memsql_version AS version,
       CAST(SUBSTRING_INDEX(@@memsql_version, '.', 1) AS SIGNED) AS major
