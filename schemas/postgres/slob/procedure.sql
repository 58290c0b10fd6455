-- One slice of a session: work units until `seconds` are over, the server's clock reaches `stop_at`
-- or `operations` are done.  The statements are static, so their plans are kept.
-- A window of 100 statements holds exactly update_pct UPDATEs (pgio's quota, for all of 0 to 100), in
-- random order: a statement is one with the chance that is left, updates_left / window_left.
-- Every UPDATE is a transaction of its own, committed before its time is taken; one that was chosen
-- to end a deadlock is counted and tried again.  Latencies go into buckets about 2 percent wide:
-- bucket b holds exp(b / 50) <= 1 + microseconds < exp((b + 1) / 50).
DROP PROCEDURE IF EXISTS {{table}}_slice
-- then
CREATE PROCEDURE {{table}}_slice(
    work_unit bigint, update_work_unit bigint, rows_loaded bigint,
    stop_at float8, seconds float8, operations bigint, update_pct int,
    INOUT window_left int, INOUT updates_left int,
    INOUT selects bigint, INOUT updates bigint, INOUT deadlocks bigint,
    INOUT began float8, INOUT ended float8,
    INOUT reads bigint, INOUT hits bigint,
    INOUT select_max float8, INOUT update_max float8,
    INOUT select_histogram text, INOUT update_histogram text
) LANGUAGE plpgsql AS $procedure$
#variable_conflict use_variable
DECLARE
    select_buckets bigint[] := array_fill(0::bigint, ARRAY[1200]);
    update_buckets bigint[] := array_fill(0::bigint, ARRAY[1200]);
    select_starts float8 := rows_loaded - work_unit + 1;
    update_starts float8 := rows_loaded - update_work_unit + 1;
    stop timestamptz;
    before timestamptz;
    after timestamptz := clock_timestamp();
    elapsed float8;
    bucket int;
    first bigint;
    last bigint;
    answer numeric;
    left_to_do bigint := operations;
    updating boolean := false;
    tries int;
    fetched bigint;
    found_before bigint;
BEGIN
    -- This session's own counts that are not written yet, of the table and its index.
    fetched := pg_stat_get_xact_blocks_fetched('{{table}}'::regclass)
        + pg_stat_get_xact_blocks_fetched('{{table}}_mykey'::regclass);
    found_before := pg_stat_get_xact_blocks_hit('{{table}}'::regclass)
        + pg_stat_get_xact_blocks_hit('{{table}}_mykey'::regclass);
    selects := 0;
    updates := 0;
    deadlocks := 0;
    select_max := 0;
    update_max := 0;
    began := date_part('epoch', after);
    stop := least(to_timestamp(stop_at), after + seconds * interval '1 second');
    WHILE after < stop AND left_to_do > 0 LOOP
        left_to_do := left_to_do - 1;
        IF update_pct > 0 THEN
            IF window_left = 0 THEN
                window_left := 100;
                updates_left := update_pct;
            END IF;
            updating := random() * window_left < updates_left;
            window_left := window_left - 1;
        END IF;
        IF updating THEN
            updates_left := updates_left - 1;
            first := 1 + floor(random() * update_starts);
            last := first + update_work_unit - 1;
            tries := 0;
            before := clock_timestamp();
            LOOP
                BEGIN
                    UPDATE {{table}} SET scratch = scratch + 1 WHERE mykey BETWEEN first AND last;
                    EXIT;
                EXCEPTION WHEN deadlock_detected THEN
                    deadlocks := deadlocks + 1;
                    tries := tries + 1;
                END;
                -- The others finish first, or all would meet again at once.
                PERFORM pg_sleep(least(0.01 * tries, 0.5));
            END LOOP;
            COMMIT;
            after := clock_timestamp();
            elapsed := date_part('epoch', after - before);
            bucket := 1 + least(floor(50 * ln(1 + greatest(elapsed, 0) * 1e6)), 1199);
            update_buckets[bucket] := update_buckets[bucket] + 1;
            IF elapsed > update_max THEN
                update_max := elapsed;
            END IF;
            updates := updates + 1;
        ELSE
            first := 1 + floor(random() * select_starts);
            last := first + work_unit - 1;
            before := clock_timestamp();
            SELECT sum(scratch) INTO answer FROM {{table}} WHERE mykey BETWEEN first AND last;
            after := clock_timestamp();
            elapsed := date_part('epoch', after - before);
            bucket := 1 + least(floor(50 * ln(1 + greatest(elapsed, 0) * 1e6)), 1199);
            select_buckets[bucket] := select_buckets[bucket] + 1;
            IF elapsed > select_max THEN
                select_max := elapsed;
            END IF;
            selects := selects + 1;
            IF update_pct > 0 THEN
                COMMIT;  -- an old snapshot would keep the others from clearing dead versions
            END IF;
        END IF;
    END LOOP;
    ended := date_part('epoch', after);
    SELECT string_agg((n - 1) || ' ' || amount, ' ') INTO select_histogram
    FROM unnest(select_buckets) WITH ORDINALITY AS u (amount, n) WHERE amount > 0;
    SELECT string_agg((n - 1) || ' ' || amount, ' ') INTO update_histogram
    FROM unnest(update_buckets) WITH ORDINALITY AS u (amount, n) WHERE amount > 0;
    hits := pg_stat_get_xact_blocks_hit('{{table}}'::regclass)
        + pg_stat_get_xact_blocks_hit('{{table}}_mykey'::regclass) - found_before;
    reads := pg_stat_get_xact_blocks_fetched('{{table}}'::regclass)
        + pg_stat_get_xact_blocks_fetched('{{table}}_mykey'::regclass) - fetched - hits;
    IF current_setting('server_version_num')::int >= 150000 THEN
        -- The counts of this slice are written when the statement ends, not up to a second later.
        PERFORM pg_stat_force_next_flush();
    END IF;
END
$procedure$
