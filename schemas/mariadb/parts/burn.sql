BENCHMARK(:burn, MD5(filler))
