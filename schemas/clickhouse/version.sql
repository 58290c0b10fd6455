SELECT version() AS version, toInt64(splitByChar('.', version())[1]) AS major
