CASE WHEN :burn > 0 THEN (SELECT sum(length(md5(repeat(filler, 4))) + unit) FROM generate_series(1, :burn) AS unit) ELSE 0 END
