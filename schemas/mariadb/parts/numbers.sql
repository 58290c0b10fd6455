FROM (SELECT :low + seq AS x FROM seq_0_to_16383 WHERE seq < :high - :low) AS numbers
