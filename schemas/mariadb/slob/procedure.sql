-- One slice of a session: work units until `seconds` are over, the server's clock reaches `stop_at`
-- or `operations` are done.
-- A window of 100 statements holds exactly update_pct UPDATEs (pgio's quota, for all of 0 to 100), in
-- random order: a statement is one with the chance that is left, updates_left / window_left.
-- With autocommit every statement is a transaction of its own, and an UPDATE is committed before its
-- time is taken; one that InnoDB ended for a deadlock is counted and tried again.
-- Latencies go into buckets about 2 percent wide: bucket b holds exp(b / 50) <= 1 + microseconds
-- < exp((b + 1) / 50).  A histogram is a string with 6 digits for each bucket: there are no arrays.
DROP PROCEDURE IF EXISTS {{table}}_slice
-- then
CREATE PROCEDURE {{table}}_slice(
    work_unit bigint, update_work_unit bigint, rows_loaded bigint,
    stop_at double, seconds double, operations bigint, update_pct int,
    window_left int, updates_left int
)
BEGIN
    DECLARE select_buckets, update_buckets varchar(7200) CHARACTER SET latin1
        DEFAULT REPEAT('0', 7200);
    DECLARE select_text, update_text varchar(16000) CHARACTER SET latin1 DEFAULT '';
    DECLARE select_starts double DEFAULT rows_loaded - work_unit + 1;
    DECLARE update_starts double DEFAULT rows_loaded - update_work_unit + 1;
    DECLARE selects, updates, deadlocks, place, amount, answer, first_key, last_key bigint DEFAULT 0;
    DECLARE select_max, update_max, elapsed, before_it double DEFAULT 0;
    DECLARE updating, again, by_index bool DEFAULT false;
    DECLARE began, after_it, stop double;
    SET by_index = @replayer_access = 'index';
    SET began = UNIX_TIMESTAMP(SYSDATE(6));
    SET after_it = began;
    SET stop = LEAST(stop_at, began + seconds);
    WHILE after_it < stop AND selects + updates < operations DO
        IF update_pct > 0 THEN
            IF window_left = 0 THEN
                SET window_left = 100;
                SET updates_left = update_pct;
            END IF;
            SET updating = RAND() * window_left < updates_left;
            SET window_left = window_left - 1;
        END IF;
        IF updating THEN
            SET updates_left = updates_left - 1;
            SET first_key = 1 + FLOOR(RAND() * update_starts);
            SET last_key = first_key + update_work_unit - 1;
            SET before_it = UNIX_TIMESTAMP(SYSDATE(6));
            REPEAT
                BEGIN
                    DECLARE EXIT HANDLER FOR 1213
                    BEGIN
                        SET deadlocks = deadlocks + 1;
                        SET again = true;
                    END;
                    SET again = false;
                    IF by_index THEN
                        UPDATE {{table}} FORCE INDEX (mykey) SET scratch = scratch + 1
                        WHERE mykey BETWEEN first_key AND last_key;
                    ELSE
                        UPDATE {{table}} SET scratch = scratch + 1
                        WHERE mykey BETWEEN first_key AND last_key;
                    END IF;
                END;
            UNTIL NOT again END REPEAT;
            SET after_it = UNIX_TIMESTAMP(SYSDATE(6));
            SET elapsed = GREATEST(after_it - before_it, 0);
            SET place = 6 * LEAST(FLOOR(50 * LN(1 + elapsed * 1e6)), 1199) + 1;
            SET update_buckets = INSERT(
                update_buckets, place, 6, LPAD(SUBSTR(update_buckets, place, 6) + 1, 6, '0'));
            IF elapsed > update_max THEN
                SET update_max = elapsed;
            END IF;
            SET updates = updates + 1;
        ELSE
            SET first_key = 1 + FLOOR(RAND() * select_starts);
            SET last_key = first_key + work_unit - 1;
            SET before_it = UNIX_TIMESTAMP(SYSDATE(6));
            IF by_index THEN
                SELECT SUM(scratch) INTO answer FROM {{table}} FORCE INDEX (mykey)
                WHERE mykey BETWEEN first_key AND last_key;
            ELSE
                SELECT SUM(scratch) INTO answer FROM {{table}}
                WHERE mykey BETWEEN first_key AND last_key;
            END IF;
            SET after_it = UNIX_TIMESTAMP(SYSDATE(6));
            SET elapsed = GREATEST(after_it - before_it, 0);
            SET place = 6 * LEAST(FLOOR(50 * LN(1 + elapsed * 1e6)), 1199) + 1;
            SET select_buckets = INSERT(
                select_buckets, place, 6, LPAD(SUBSTR(select_buckets, place, 6) + 1, 6, '0'));
            IF elapsed > select_max THEN
                SET select_max = elapsed;
            END IF;
            SET selects = selects + 1;
        END IF;
    END WHILE;
    -- From the strings of digits to `bucket amount bucket amount ...`.
    SET place = 0;
    WHILE place < 1200 DO
        IF selects > 0 THEN
            SET amount = SUBSTR(select_buckets, 6 * place + 1, 6);
            IF amount > 0 THEN
                SET select_text = CONCAT(select_text, place, ' ', amount, ' ');
            END IF;
        END IF;
        IF updates > 0 THEN
            SET amount = SUBSTR(update_buckets, 6 * place + 1, 6);
            IF amount > 0 THEN
                SET update_text = CONCAT(update_text, place, ' ', amount, ' ');
            END IF;
        END IF;
        SET place = place + 1;
    END WHILE;
    -- Of reads and hits there are counters of the whole server only.
    SELECT window_left, updates_left, selects, updates, deadlocks, began, after_it AS ended,
           NULL AS `reads`, NULL AS hits,
           select_max, update_max, select_text AS select_histogram, update_text AS update_histogram;
END
