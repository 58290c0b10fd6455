-- The rows from `low` to below `high` of a table, in physical order.  mykey is a permutation of the row
-- numbers: three rounds of multiply, add and xor-shift below a power of two, where whatever falls
-- beyond the last row is left out.
INSERT INTO {{table}} (id, mykey, scratch, filler)
SELECT 2 * x + 2, spot + 1, spot * 7919 % 1000000000,
       -- include parts/filler
FROM (
    SELECT x, c ^ (c >> :shift) AS spot FROM (
        SELECT x, (b * :factor3 + :addend3) & :mask AS c FROM (
            SELECT x, a ^ (a >> :shift) AS b FROM (
                SELECT x, (z * :factor2 + :addend2) & :mask AS a FROM (
                    SELECT x, y ^ (y >> :shift) AS z FROM (
                        SELECT x, (x * :factor1 + :addend1) & :mask AS y
                        -- include parts/numbers
                    ) AS s1
                ) AS s2
            ) AS s3
        ) AS s4
    ) AS s5
) AS s6
WHERE spot < :rows
ORDER BY x
-- then
-- A third row does not fit between two on one page, so each one that comes between them splits the
-- page; taken back, they leave one row on every page.
SAVEPOINT replayer_split
-- then
INSERT INTO {{table}} (id, mykey, scratch, filler)
SELECT 2 * x + 1, 0, 0, ''
-- include parts/numbers
-- then
ROLLBACK TO SAVEPOINT replayer_split
