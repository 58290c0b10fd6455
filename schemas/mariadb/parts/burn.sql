CASE WHEN :burn > 0 THEN BENCHMARK(:burn, MD5(filler)) ELSE 0 END
