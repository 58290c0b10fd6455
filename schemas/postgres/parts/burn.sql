CASE WHEN :burn > 0 THEN (SELECT sum(length(md5(repeat(filler, 4)))) FROM generate_series(1, :burn)) ELSE 0 END
