CAST((SELECT sum(length(md5(repeat(filler, 4))) + unit) FROM generate_series(1, :burn) AS unit) AS bigint)
