-- One slice of a session in SingleStore's procedural SQL: work units until `seconds` are over, the
-- server's clock reaches `stop_at` or `operations` are done, and never more than 4096, so that it
-- ends even where the clock stands still inside a procedure.  UNVERIFIED: that NOW(6) moves on there.
-- A window of 100 statements holds exactly update_pct UPDATEs, in random order.  Every UPDATE is a
-- transaction of its own.  Latencies go into buckets about 2 percent wide: bucket b holds
-- exp(b / 50) <= 1 + microseconds < exp((b + 1) / 50).
CREATE OR REPLACE PROCEDURE {{table}}_slice(
    work_unit BIGINT, update_work_unit BIGINT, rows_loaded BIGINT,
    stop_at DOUBLE, seconds DOUBLE, operations BIGINT, update_pct BIGINT,
    window_now BIGINT, updates_now BIGINT
) AS
DECLARE
    select_buckets ARRAY(BIGINT) = CREATE_ARRAY(1200);
    update_buckets ARRAY(BIGINT) = CREATE_ARRAY(1200);
    select_text LONGTEXT = '';
    update_text LONGTEXT = '';
    window_left BIGINT = window_now;
    updates_left BIGINT = updates_now;
    left_to_do BIGINT = LEAST(operations, 4096);
    selects BIGINT = 0;
    updates BIGINT = 0;
    select_max DOUBLE = 0;
    update_max DOUBLE = 0;
    elapsed DOUBLE = 0;
    began DOUBLE = UNIX_TIMESTAMP(NOW(6));
    before_it DOUBLE = began;
    after_it DOUBLE = began;
    stop DOUBLE = LEAST(stop_at, began + seconds);
    first_key BIGINT = 0;
    last_key BIGINT = 0;
    answer BIGINT = 0;
    bucket BIGINT = 0;
    updating BOOL = FALSE;
BEGIN
    FOR i IN 0 .. 1199 LOOP
        select_buckets[i] = 0;
        update_buckets[i] = 0;
    END LOOP;
    WHILE after_it < stop AND left_to_do > 0 LOOP
        left_to_do -= 1;
        updating = FALSE;
        IF update_pct > 0 THEN
            IF window_left = 0 THEN
                window_left = 100;
                updates_left = update_pct;
            END IF;
            updating = RAND() * window_left < updates_left;
            window_left -= 1;
        END IF;
        IF updating THEN
            updates_left -= 1;
            first_key = 1 + FLOOR(RAND() * (rows_loaded - update_work_unit + 1));
            last_key = first_key + update_work_unit - 1;
            before_it = UNIX_TIMESTAMP(NOW(6));
            UPDATE {{table}} SET scratch = scratch + 1
            WHERE mykey BETWEEN first_key AND last_key;
            after_it = UNIX_TIMESTAMP(NOW(6));
            elapsed = GREATEST(after_it - before_it, 0);
            bucket = LEAST(FLOOR(50 * LN(1 + elapsed * 1e6)), 1199);
            update_buckets[bucket] = update_buckets[bucket] + 1;
            update_max = GREATEST(update_max, elapsed);
            updates += 1;
        ELSE
            first_key = 1 + FLOOR(RAND() * (rows_loaded - work_unit + 1));
            last_key = first_key + work_unit - 1;
            before_it = UNIX_TIMESTAMP(NOW(6));
            SELECT SUM(scratch) INTO answer FROM {{table}}
            WHERE mykey BETWEEN first_key AND last_key;
            after_it = UNIX_TIMESTAMP(NOW(6));
            elapsed = GREATEST(after_it - before_it, 0);
            bucket = LEAST(FLOOR(50 * LN(1 + elapsed * 1e6)), 1199);
            select_buckets[bucket] = select_buckets[bucket] + 1;
            select_max = GREATEST(select_max, elapsed);
            selects += 1;
        END IF;
    END LOOP;
    FOR i IN 0 .. 1199 LOOP
        IF select_buckets[i] > 0 THEN
            select_text = CONCAT(select_text, i, ' ', select_buckets[i], ' ');
        END IF;
        IF update_buckets[i] > 0 THEN
            update_text = CONCAT(update_text, i, ' ', update_buckets[i], ' ');
        END IF;
    END LOOP;
    ECHO SELECT window_left AS window_left, updates_left AS updates_left,
                selects AS selects, updates AS updates, 0 AS deadlocks,
                began AS began, after_it AS ended, NULL AS `reads`, NULL AS hits,
                select_max AS select_max, update_max AS update_max,
                select_text AS select_histogram, update_text AS update_histogram;
END
