-- The rows from `low` to below `high` of a table, in physical order.  mykey is a permutation of the row
-- numbers: three rounds of multiply, add and xor-shift below a power of two, where whatever falls
-- beyond the last row is left out.  OFFSET 0 keeps the planner from writing each round twice.
INSERT INTO {{table}} (mykey, scratch, filler)
SELECT spot + 1, spot * 7919 % 1000000000, repeat(md5(spot::text), 32)
FROM (
    SELECT c # (c >> :shift) AS spot FROM (
        SELECT (b * :factor3 + :addend3) & :mask AS c FROM (
            SELECT a # (a >> :shift) AS b FROM (
                SELECT (z * :factor2 + :addend2) & :mask AS a FROM (
                    SELECT y # (y >> :shift) AS z FROM (
                        SELECT (x * :factor1 + :addend1) & :mask AS y
                        FROM generate_series(CAST(:low AS bigint), :high - 1) AS x
                        OFFSET 0) AS s1
                    OFFSET 0) AS s2
                OFFSET 0) AS s3
            OFFSET 0) AS s4
        OFFSET 0) AS s5
    OFFSET 0) AS s6
WHERE spot < :rows
