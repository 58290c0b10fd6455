-- From here on RAND() gives this session the same numbers in every run; the formula is RAND(n)'s own.
SET SESSION
    rand_seed1 = (CAST((1 + :seed) * 500000000 AS SIGNED) * 65537 + 55555555) % 1073741823,
    rand_seed2 = (CAST((1 + :seed) * 500000000 AS SIGNED) * 268435457) % 1073741823
