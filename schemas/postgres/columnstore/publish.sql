-- The rows of all segments, as a view that leaves out what a query does not need:
-- * a column that is not asked for: its sub-select disappears, and its table is not opened.
-- * a segment whose ids cannot match: `b.id BETWEEN its smallest AND its largest` contradicts the
--   query's condition, which the planner sees before it starts (with constraint_exclusion = on).
--   The LEFT JOIN never loses a row; `HAVING true` says that it never doubles one either, so that
--   the planner drops it with its condition when no id is asked for.  OFFSET 0 keeps one sub-select
--   from becoming one for each condition.
-- A segment whose times are all the same has no array of them.
-- `v || '{}'` unpacks an array of fixed-length values once, array_append one of strings, so that
-- each subscript takes the same time.
DO $do$
DECLARE
    branches text;
BEGIN
    SELECT string_agg(
        format(
            $branch$
SELECT b.id,
       (l.lastnames[l.n])::varchar(255) AS lastname,
       %5$s AS "time"
FROM (
    SELECT x.lastnames, generate_series(1, %2$s) AS n
    FROM (
        SELECT array_append((SELECT v FROM persons1_s%1$s_lastname), NULL) AS lastnames OFFSET 0
    ) AS x
) AS l
LEFT JOIN LATERAL (
    SELECT (SELECT v || '{}'::bigint[] FROM persons1_s%1$s_id)[l.n] AS id HAVING true OFFSET 0
) AS b ON b.id BETWEEN %3$s AND %4$s
$branch$,
            segment, rows, id_min, id_max,
            format(
                CASE WHEN time_min = time_max THEN '(SELECT minimum FROM persons1_s%s_time)'
                ELSE '(SELECT v || ''{}''::timestamp[] FROM persons1_s%s_time)[l.n]' END,
                segment
            )
        ),
        'UNION ALL' ORDER BY segment
    )
    INTO branches
    FROM persons1_segments
    WHERE doubling <= {{doubling}};
    EXECUTE 'CREATE OR REPLACE VIEW persons1 AS ' || branches;
END
$do$
