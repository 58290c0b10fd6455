"""The SLOB method against the real server: tables, sessions, windows, verdicts and failures."""

import contextlib
import dataclasses
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from replayer.conditions import memory_bound
from replayer.engines import connection, verbs
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import Impossible, ReplayerError, Skip
from replayer.machine import cgroups, processes
from replayer.machine.host import Host
from replayer.model import Better, Outcome, ReadOrigin, Temperature
from replayer.run.context import Context
from replayer.servers.open import open_server
from replayer.steps.sessions import preparation as sessions_preparation
from replayer.steps.sessions import step as sessions
from replayer.steps.sessions import window as sessions_window
from replayer.steps.sessions.spec import Spec
from replayer.tables import pgio
from replayer.tables.pgio import SessionResult, TableSet
from replayer.watch import interference
from replayer.watch.workers import WorkerPool
from tests.beside import beside
from tests.fixture_types import Surroundings
from tests.hooked import Hooks, hooked
from tests.kept_cached import kept_cached
from tests.known import known
from tests.limited import limited
from tests.performed import performed
from tests.ready_made import copy, ready_data
from tests.server_pool import ServerPool
from tests.slow_case import slow
from tests.waiting import wait_until

NAMES = {
    "sessions.riops", "sessions.cache_hits", "sessions.device_reads", "sessions.latency.p50",
    "sessions.latency.p95", "sessions.latency.p99", "sessions.latency.p999",
    "sessions.latency.max", "sessions.client_cpu",
}  # fmt: skip
TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name LIKE 'replayer session %'"
)


def spec_of(**keys: object) -> Spec:
    """Return a small spec; every key can be set."""
    small = {"num_schemas": 2, "num_threads": 1, "scale": 1024, "work_unit": 32, "run_time": "1s"}
    return Spec.model_validate({"step": "sessions", "name": "sessions", **small, **keys})


def perform(context: Context, **keys: object) -> Outcome:
    """Run a whole step and return its outcome."""
    return performed(sessions, spec_of(**keys), context)


def cached(
    context: Context,
    begin: Hooks | None = None,
    also: Callable[[], object] = lambda: None,
    **keys: object,
) -> Outcome:
    """Run a step whose tables stay in the page cache, also where another test drops it.

    `also` is done just before its window opens.
    """
    provide(context, **keys)
    with contextlib.ExitStack() as kept:
        # When it has warmed them, and seen that it can tell what is in memory.
        def connect() -> None:
            kept.enter_context(kept_cached(context.data_directory()))
            also()

        meddled = hooked(context, begin={"connect": connect, **(begin or {})})
        outcome = perform(meddled, memory="cached", **keys)
    assert not any("displaced" in note for note in outcome.notes)
    return outcome


def provide(context: Context, **keys: object) -> tuple[Spec, list[str]]:
    """Load the tables of a spec where they are not there; return the spec and the notes."""
    spec = spec_of(**keys)
    return spec, sessions_preparation.provide_tables(spec.tables(8192), context)


@contextlib.contextmanager
def working(database: Database, spec: Spec, slice_seconds: float = 0.1) -> Iterator[WorkerPool]:
    """Have the sessions of a spec wait at their barrier."""
    jobs = list(sessions_window._jobs(spec, spec.tables(8192), database, slice_seconds))
    with WorkerPool(pgio.session, jobs, processes=1) as pool:
        pool.ready(timeout=600)
        yield pool


def work(database: Database, spec: Spec) -> list[SessionResult]:
    """Run the sessions of a spec on the running server, without restarts; return their results."""
    with working(database, spec) as pool:
        pool.open()
        return pool.results()


def keys_of(database: Database, name: str) -> list[int]:
    """Return the keys of a table in physical order."""
    return [row["mykey"] for row in database.query(f"SELECT mykey FROM {name} ORDER BY ctid")]


# Tables


@pytest.mark.parametrize("rows", [1000, 1024])
def test_tables_have_one_row_per_block_and_every_key_once(
    context: Context, database: Database, rows: int
) -> None:
    """Blocks = rows, an index, mykey in an order unrelated to the physical one, and all keys."""
    provide(context, scale=rows)
    for table in pgio.layout(database, ["pgio1", "pgio2"]):
        assert table.rows == table.blocks
        assert table.indexed
        assert table.correlation is not None
        assert abs(table.correlation) < 0.15
        assert not table.flaw(rows)
    first, second = keys_of(database, "pgio1"), keys_of(database, "pgio2")

    assert sorted(first) == list(range(1, len(first) + 1))
    assert first != second
    assert len(first) >= rows


@pytest.mark.slow
def test_order_of_keys_depends_on_the_seed_alone(database: Database) -> None:
    """The same seed gives the same tables, from one loading session or several."""
    orders = []
    for seed, loaders in ((7, 1), (7, 2), (8, 2)):
        pgio.drop(database)
        wanted = TableSet(tables=2, rows=700, seed=seed)
        assert sum(pgio.load(database, wanted, loaders, "test")) == 1400
        orders.append(keys_of(database, "pgio2"))

    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


@pytest.mark.slow
def test_whole_set_is_reused_and_a_smaller_one_is_not(context: Context, database: Database) -> None:
    """Loading is done only when it has to be: larger is usable, smaller or another seed is not."""
    provide(context, scale=1024, seed=3)
    oid = database.query("SELECT 'pgio1'::regclass::oid AS oid")
    same = provide(context, scale=1024, seed=3)[1]
    larger_is_there = provide(context, scale=512, seed=3)[1]

    assert same == larger_is_there == []
    assert database.query("SELECT 'pgio1'::regclass::oid AS oid") == oid
    assert "fewer" in provide(context, scale=2048, seed=3)[1][0]
    assert "seed 3" in provide(context, scale=2048, seed=4)[1][0]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("DROP INDEX pgio1_mykey", "no index on mykey"),
        slow("DELETE FROM pgio1 WHERE mykey = 5", "rows in 1,024 blocks"),
        slow("TRUNCATE pgio1", "0 rows, fewer"),
        ("DROP TABLE pgio2", "not there yet: pgio2"),
        ("CLUSTER pgio1 USING pgio1_mykey; ANALYZE pgio1", "physical order"),
        slow(
            "ALTER TABLE pgio1 SET (fillfactor = 100); VACUUM FULL pgio1; ANALYZE pgio1", "blocks"
        ),
        ("COMMENT ON TABLE pgio1 IS NULL", "not loaded to its end"),
    ],
)
def test_damaged_tables_are_found_and_loaded_again(
    context: Context, database: Database, damage: str, reason: str
) -> None:
    """Whatever the layout check finds is named, and the next run works on whole tables."""
    spec, _ = provide(context)
    for statement in damage.split(";"):
        database.query(statement)

    assert reason in pgio.flaws(database, spec.tables(8192))[0]
    assert reason in provide(context)[1][0]
    assert pgio.flaws(database, spec.tables(8192)) == []


def test_layout_that_stays_wrong_stops_the_run(
    context: Context, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load that does not give one row per block ends with the reason, not with a number."""
    broken = Path(__file__).parents[2] / "schemas/postgres/slob/create.sql"
    text = broken.read_text().replace("fillfactor = 10", "fillfactor = 100")
    real = engines.Engine.verb

    def verb(engine: engines.Engine, name: verbs.VerbName) -> verbs.Verb | None:
        known = real(engine, name)
        return verbs.Verb(name, broken, text) if name == "slob/create" else known

    monkeypatch.setattr(engines.Engine, "verb", verb)
    pgio.drop(database)

    with pytest.raises(ReplayerError, match=r"layout .* each block must hold one row"):
        provide(context)
    pgio.drop(database)


def test_interrupted_load_leaves_no_table(context: Context, database: Database) -> None:
    """A table whose load was cut short was never there; the next run loads it."""
    pgio.drop(database)
    loading = pgio.load(database, TableSet(tables=1, rows=200_000, seed=1), 1, "test")
    assert isinstance(loading, Generator)
    assert next(rows for rows in loading if rows) > 0
    loading.close()
    spec = spec_of(num_schemas=1)

    assert "not there yet" in pgio.flaws(database, spec.tables(8192))[0]
    assert "not there yet" in provide(context, num_schemas=1)[1][0]


def test_foreign_table_is_refused_and_kept(context: Context, database: Database) -> None:
    """A table of ours in name only is not touched."""
    pgio.drop(database)
    database.query("CREATE TABLE pgio2 AS SELECT 42 AS answer")
    try:
        with pytest.raises(Impossible, match="pgio2 is there and was not made by replayer"):
            provide(context)
        assert database.query("SELECT answer FROM pgio2") == [{"answer": 42}]
    finally:
        database.query("DROP TABLE pgio2")


def test_too_little_space_is_refused_with_both_numbers(
    context: Context, database: Database
) -> None:
    """Nothing is loaded when it cannot fit."""
    pgio.drop(database)
    with pytest.raises(Impossible, match=r"needs [\d.,]+ TiB and .* has [\d.,]+ .iB free"):
        provide(context, scale="1T", num_schemas=64)

    assert database.execute(verbs.VerbName("slob/tables")) == []


# Sessions


@pytest.mark.parametrize("percentage", [0, 1, slow(50), 51, slow(75), slow(99), 100])
def test_update_percentage_is_exact_in_every_window_of_100(
    context: Context, database: Database, percentage: int
) -> None:
    """Of every 100 statements exactly update_pct are UPDATEs, for all of 0 to 100."""
    spec, _ = provide(context, update_pct=percentage, operations=200)

    for result in work(database, spec):
        assert (result.updates, result.selects) == (2 * percentage, 200 - 2 * percentage)
        assert sum(result.select.values()) == result.selects
        assert sum(result.update.values()) == result.updates


def test_same_seed_touches_the_same_keys(context: Context, database: Database) -> None:
    """A run can be repeated key by key, and every session has a sequence of its own."""
    spec, _ = provide(
        context, num_threads=2, update_pct=100, update_work_unit=1, operations=40, seed=1
    )

    def touched() -> dict[int, int]:
        rows = "SELECT mykey, scratch FROM pgio1"
        before = {row["mykey"]: row["scratch"] for row in database.query(rows)}
        work(database, spec)
        after = {row["mykey"]: row["scratch"] for row in database.query(rows)}
        return {key: after[key] - before[key] for key in after if after[key] != before[key]}

    first, second = touched(), touched()
    warm_up = 2

    assert sum(first.values()) == sum(second.values()) == 2 * 40 + warm_up
    assert len(set(first) & set(second)) >= len(first) - warm_up
    assert len(first) > 60


@pytest.mark.slow
def test_keys_reach_both_ends(context: Context, database: Database) -> None:
    """The first and the last rows are touched too: pgio never reaches the last."""
    pgio.drop(database)
    single = {"work_unit": 1, "update_work_unit": 1, "update_pct": 100}
    spec, _ = provide(context, num_schemas=1, scale=16, operations=600, **single)
    query = "SELECT scratch FROM pgio1 WHERE mykey IN (1, 16) ORDER BY mykey"
    before = [row["scratch"] for row in database.query(query)]
    work(database, spec)
    after = [row["scratch"] for row in database.query(query)]

    assert all(now - then > 10 for now, then in zip(after, before, strict=True))


def test_counters_move_by_the_blocks_that_sessions_touched(
    context: Context, database: Database
) -> None:
    """Nothing is counted outside of the window, and nothing inside of it is missed."""
    spec, _ = provide(context, num_threads=2, work_unit=255)
    before = sessions_window._counters(database)
    results = work(database, spec)
    after = sessions_window._counters(database)
    touched = sum(result.select_blocks for result in results)
    counted = after.hits + after.reads - before.hits - before.reads

    # Beside the table's blocks: 2 to 5 of the index per work unit, and the sessions' catalogues.
    assert touched <= counted <= 1.05 * touched + 4 * 2000
    # Each slice counted for itself, and all of them together are what the server says.
    own = sum(done.reads + done.hits for result in results for done in result.slices)
    assert touched <= own <= counted <= own + 4 * 2000


def test_work_is_committed_while_sessions_run(context: Context, database: Database) -> None:
    """Updates are visible, and rows free, in the middle of a slice."""
    pgio.drop(database)
    spec, _ = provide(
        context, num_schemas=1, update_pct=100, update_work_unit=64, work_unit=64, scale=64,
        run_time="3600s",
    )  # fmt: skip
    seen: list[int] = []
    with working(database, spec, slice_seconds=3600) as pool, context.database() as other:
        pool.open()
        while len(set(seen)) < 5:
            database.query("UPDATE pgio1 SET scratch = scratch WHERE mykey = 7")
            seen.append(other.query("SELECT sum(scratch)::bigint AS s FROM pgio1")[0]["s"])
        database.query(TERMINATE)
        (result,) = pool.results()

    assert seen == sorted(seen)
    assert isinstance(result, pgio.ConnectionLost)


def test_deadlock_is_counted_and_tried_again(context: Context, database: Database) -> None:
    """A session that was chosen to end a deadlock goes on with the same UPDATE.

    It updates all rows in the order of their keys.  A first client stops it at row 30; a second one
    has row 60, and waits for row 1.  When the first lets it go on, the session waits for row 60: as
    the last to wait it is the one that finds the deadlock, and ends it.
    """
    pgio.drop(database)
    wide = {"scale": 64, "work_unit": 64, "update_work_unit": 64, "num_schemas": 1}
    spec, _ = provide(context, update_pct=100, operations=20, **wide)
    name = database.url.database
    database.query(f"ALTER DATABASE {name} SET deadlock_timeout = '10ms'")
    with contextlib.ExitStack() as opened:
        first, second = (opened.enter_context(context.database()) for _ in range(2))
        second.query("SET deadlock_timeout = '1h'")
        waits = "SELECT 1 FROM pg_stat_activity WHERE {} = ANY (pg_blocking_pids(pid))"
        pids = [one.query("SELECT pg_backend_pid() AS pid")[0]["pid"] for one in (first, second)]
        update = "UPDATE pgio1 SET scratch = scratch WHERE mykey = {}"
        pool = opened.enter_context(working(database, spec))
        for client, key in ((first, 30), (second, 60)):
            client.query("BEGIN")
            client.query(update.format(key))
        pool.open()
        wait_until(lambda: database.query(waits.format(pids[0])))
        thread = threading.Thread(target=second.query, args=[update.format(1)])
        thread.start()
        blocked = f"SELECT 1 WHERE pg_blocking_pids({pids[1]}) <> '{{}}'"
        wait_until(lambda: database.query(blocked))
        first.query("ROLLBACK")
        thread.join()
        second.query("ROLLBACK")
        (result,) = pool.results()
    database.query(f"ALTER DATABASE {name} RESET deadlock_timeout")

    assert result.deadlocks == 1
    assert result.updates == 20


def at_work(database: Database) -> bool:
    """Tell whether sessions are in the middle of a slice."""
    busy = (
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'replayer session %' AND "
        "query LIKE 'CALL%' AND state = 'active' AND now() - query_start > '0.1s'"
    )
    return bool(database.query(busy))


def meddled_with(context: Context, statement: str) -> Context:
    """Return a context in which this statement is sent once the sessions are at work."""

    def meddle() -> None:
        with context.database() as other:
            wait_until(lambda: at_work(other))
            other.query(statement)

    return hooked(context, begin={"sessions": meddle})


def test_lost_connection_is_counted_and_told(context: Context, database: Database) -> None:
    """A session whose backend was ended makes the step fail in one sentence, at once."""
    spec, _ = provide(context, run_time="3600s")
    meddled = meddled_with(context, TERMINATE.replace("session %", "session 2"))
    with pytest.raises(ReplayerError, match="1 of 2 sessions lost the server"):
        sessions_window.measure_window(spec, spec.tables(8192), meddled, database)


def test_a_refused_statement_is_not_a_lost_server(context: Context, database: Database) -> None:
    """A session that the server still answers had a statement refused, and this is the message."""
    spec, _ = provide(context, run_time="3600s")
    cancel = TERMINATE.replace("pg_terminate_backend", "pg_cancel_backend")
    meddled = meddled_with(context, cancel)
    refused = "the server refused a statement of [12] of 2 sessions .canceling statement"
    with pytest.raises(ReplayerError, match=refused):
        sessions_window.measure_window(spec, spec.tables(8192), meddled, database)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("default_transaction_isolation", "repeatable read"),
        ("default_transaction_isolation", "serializable"),
        ("statement_timeout", "20ms"),
        ("lock_timeout", "1ms"),
    ],
)
def test_what_a_database_has_by_default_ends_no_session(
    context: Context, database: Database, setting: str, value: str
) -> None:
    """Sessions that update the same rows all the time wait for each other, and are not refused."""
    pgio.drop(database)
    crowded = {"scale": 64, "work_unit": 64, "update_work_unit": 64, "num_schemas": 1}
    spec, _ = provide(context, update_pct=100, num_threads=4, run_time="2s", **crowded)
    name = database.url.database
    database.query(f"ALTER DATABASE {name} SET {setting} = '{value}'")
    try:
        with context.database() as other:
            window = sessions_window.measure_window(spec, spec.tables(8192), context, other)
    finally:
        database.query(f"ALTER DATABASE {name} RESET {setting}")

    assert len(window.results) == 4
    assert all(result.updates for result in window.results)


# Whole steps


def test_cached_step_is_served_by_the_page_cache(context: Context) -> None:
    """RIOPS without device reads, every measurement there, and the line that people look for."""
    outcome = cached(context, work_unit=255, scale="16M")
    values = {m.metric: m.value for m in outcome.measurements}

    assert values.keys() >= NAMES
    assert outcome.ledger
    assert outcome.ledger.verdict == ReadOrigin.CACHED
    assert outcome.cold
    assert outcome.cold.got == Temperature.HOT
    assert values["sessions.riops"] == pytest.approx(outcome.ledger.riops)
    assert 0 < values["sessions.latency.p50"] <= values["sessions.latency.p99"]
    assert values["sessions.latency.p999"] <= values["sessions.latency.max"] * 1.001
    assert re.fullmatch(
        r"DBNAME:  pgio\. 2 schemas, 1 threads\(each\)\. Run time: 1 seconds\. "
        rf"RIOPS >{int(values['sessions.riops'])}< "
        rf"CACHE_HITS/s >{int(values['sessions.cache_hits'])}<",
        outcome.printed["pgio"][0],
    )
    plan = outcome.facts["sessions.plan"]
    assert isinstance(plan, tuple)
    assert "Index Scan using pgio1_mykey" in " ".join(map(str, plan))
    assert outcome.series
    assert len(outcome.series.columns["sessions.riops"]) == len(outcome.series.seconds) >= 1
    assert outcome.latency["select"].operations == sum(
        row["operations"] for row in outcome.tables["sessions"]
    )
    # The next step finds the server as it was.
    with context.database() as database:
        assert database.query("SHOW track_io_timing")[0]["track_io_timing"] == "on"


@pytest.mark.slow
def test_busy_loops_beside_a_cached_run_are_told(context: Context, tmp_path: Path) -> None:
    """Programs that only compute take what the server would have had: how much, and which."""
    program = tmp_path / "busy-loop"
    shutil.copy("/bin/sh", program)
    # Half of the machine is theirs, whoever else computes: what takes a tenth of that is named.
    loop = f"exec nice -n -15 {program} -c 'while :; do :; done'"
    loops = beside(loop, many=max(1, (os.cpu_count() or 1) // 2))
    with contextlib.ExitStack() as opened:

        def compute() -> None:
            opened.enter_context(loops)
            # On a busy machine it takes them longer than the window to become what they are.
            wait_until(
                lambda: any(one.name == "busy-loop" and one.cpu for one in processes.table())
            )

        outcome = cached(context, also=compute, work_unit=255, scale="16M")

    assert outcome.foreign
    assert outcome.foreign.cpu_share
    assert outcome.foreign.cpu_share > 0.1
    assert any(text.startswith("busy-loop") for text in outcome.foreign.programs)


def test_the_servers_work_is_not_taken_for_others(context: Context, database: Database) -> None:
    """What sessions and their clients cost is known as one's own, also when they have ended."""
    host, server = context.host, context.server
    spec, _ = provide(context, num_threads=2, run_time="3600s")
    first = interference.point(host, interference.pids_of(server))
    with working(database, spec) as pool, context.database() as other:
        pool.open()
        wait_until(lambda: at_work(other))
        meanwhile = interference.point(host, interference.pids_of(server))
        used = {one.pid: one.cpu for one in processes.table()}
        own = {*server.pids(), *pool.pids}
        other.query(TERMINATE)
        pool.results()
    wait_until(lambda: not set(pool.pids) & {one.pid for one in processes.table()})
    last = interference.point(host, interference.pids_of(server))
    sessions_used = sum(used[pid] for pid in own)

    assert len(own) > 5
    assert not own & {pid for pid, _ in meanwhile.others}
    assert not own & {pid for pid, _ in last.others}
    assert last.known >= first.known
    assert last.known - first.known >= meanwhile.known - first.known > 0
    assert last.known >= sessions_used


def test_a_cpu_quota_that_holds_the_server_back_is_seen(
    context: Context, database: Database
) -> None:
    """Its share of the window's own periods; also if it is set and taken away within the window.

    What a group has counted before the server came into it is of no window.
    """
    host, server = context.host, context.server
    spec, _ = provide(context, num_threads=2, run_time="3600s")

    def point() -> interference.AccountMark:
        return interference.point(host, interference.pids_of(server))

    def since(first: interference.AccountMark) -> dict[str, float | None]:
        return interference.between(first, point(), None).held_back

    def held_back(first: interference.AccountMark) -> bool:
        return (since(first).get("server") or 0.0) > 0.5

    with working(database, spec) as pool, context.database() as other:
        pool.open()
        wait_until(lambda: at_work(other))
        free = point()
        assert "server" not in since(free)
        with limited(server, cores=0.1):
            wait_until(lambda: "server" in since(free))
            assert since(free)["server"] is None
            within = point()
            wait_until(lambda: held_back(within))
            quota = Path("/", next(host.cgroups("cpu", server.pids()[0])), "cpu.cfs_quota_us")
            usual = quota.read_text()
            quota.write_text("-1")
            attacked = point()
            quota.write_text(usual)
            wait_until(lambda: held_back(attacked))
            quota.write_text("-1")
            assert held_back(attacked)
        other.query(TERMINATE)
        pool.results()


def test_a_limit_of_the_disk_that_holds_the_server_back_is_seen(context: Context) -> None:
    """Its share that was used is in the result; without a limit there is none."""
    host, server = context.host, context.server
    devices = context.sampler.layers
    with contextlib.ExitStack() as opened:

        def limit() -> None:
            opened.enter_context(limited(server, read_iops=200))
            wait_until(
                lambda: all(cgroups.limits(host, p, devices).read_iops for p in server.pids())
            )

        held = perform(
            hooked(context, begin={"connect": limit}), memory="direct", work_unit=255, scale="16M"
        )
    free = perform(context, memory="direct", work_unit=8, scale="16M")

    assert held.foreign
    assert (held.foreign.disk_limits["server.read_iops"] or 0.0) > 0.5
    assert free.foreign
    assert free.foreign.disk_limits == {}


@pytest.mark.quiet
def test_all_accounts_add_up(context: Context, database: Database) -> None:
    """What is told of others is what all processes used that are neither server nor replayer."""
    host, server = context.host, context.server

    def accounts() -> tuple[interference.AccountMark, float]:
        point = interference.point(host, interference.pids_of(server))
        return point, sum(process.cpu + process.reaped for process in processes.table())

    spec, _ = provide(context, num_threads=2, work_unit=255, scale="16M", run_time="3s")
    first, before = accounts()
    results = work(database, spec)
    last, after = accounts()
    own = last.known - first.known
    of_others = (after - before) - own
    share = interference.between(first, last, None).cpu_share
    assert share is not None
    told = share * (last.clock - first.clock) * last.processors

    assert own > 0.3 * max(result.ended - result.began for result in results)
    assert told == pytest.approx(of_others, abs=0.15 * (after - before) + 0.3)


@pytest.mark.slow
def test_foreign_reads_beside_a_cached_run_are_named(context: Context, server_home: Path) -> None:
    """The run is cached, the device is busy for others, and that is said with its number."""
    if context.host.device_of(context.data_directory()) is None:
        pytest.skip("the data directory is not on a block device")
    other = server_home / "interference"
    other.write_bytes(os.urandom(16 << 20))
    subprocess.run(["sync", other], check=True)
    read = ["dd", f"if={other}", "of=/dev/null", "bs=1M", "iflag=direct"]

    def reads() -> None:
        for _ in range(4):
            subprocess.run(read, check=True, stderr=subprocess.DEVNULL)

    begin = {"sessions": reads}
    outcome = cached(context, begin, work_unit=16, num_schemas=1, operations=2000, scale="16M")
    other.unlink()

    assert outcome.ledger
    assert outcome.ledger.verdict == ReadOrigin.CACHED
    assert outcome.cold
    assert outcome.cold.own_bytes is not None
    assert outcome.cold.device_bytes is not None
    assert outcome.cold.own_bytes < 0.02 * (64 << 20) <= 0.02 * outcome.cold.device_bytes
    assert "other processes read" in outcome.ledger.note


@pytest.mark.parametrize("disturbed", [False, True])
def test_other_sessions_of_the_database_are_not_counted(
    context: Context, *, disturbed: bool
) -> None:
    """RIOPS and hits are of the own sessions' blocks, and who else was there is said, or nobody."""

    def reads() -> None:
        if disturbed:
            with context.database() as other:
                for _ in range(100):
                    other.query("SELECT sum(scratch) FROM pgio1")
                # A session that has left may still be counted late: this one is before it leaves.
                other.query("SELECT pg_stat_force_next_flush()")

    outcome = cached(context, {"sessions": reads}, work_unit=255, operations=150, scale="16M")
    values = {m.metric: m.value for m in outcome.measurements}
    seconds = outcome.facts["sessions.window_s"]
    touched = sum(row["select_blocks"] for row in outcome.tables["sessions"])
    assert isinstance(seconds, float)
    counted = (values["sessions.riops"] + values["sessions.cache_hits"]) * seconds

    # Of an index there are a few blocks for each statement.
    assert touched <= counted <= 1.1 * touched
    told = [note for note in outcome.notes if note.startswith("other sessions of this database")]
    assert len(told) == disturbed


def read_in_another_database(context: Context) -> None:
    """Read 100,000 blocks in another database of the server, `apart`, which is made before."""
    with context.database() as control:
        control.query("CREATE DATABASE apart")
        url = control.url.set(database="apart")
    with contextlib.closing(Database(context.engine, url)) as apart:
        apart.query("CREATE TABLE public.blocks (filler text) WITH (fillfactor = 10)")
        filler = "SELECT repeat('x', 1000) FROM generate_series(1, 1000)"
        apart.query(f"INSERT INTO public.blocks {filler}")
        for _ in range(100):
            apart.query("SELECT count(*) FROM public.blocks")
        apart.query("SELECT pg_stat_force_next_flush()")


@pytest.mark.parametrize("keys", [{"operations": 150}, {"rate": 20, "run_time": "2s"}])
def test_reads_for_another_database_are_named_in_the_ledger(
    context: Context, keys: dict[str, Any]
) -> None:
    """Its processes are the server's, so that the server's bytes prove nothing of the step's."""
    begin = {"sessions": lambda: read_in_another_database(context)}
    try:
        outcome = cached(context, begin, work_unit=255, scale="16M", **keys)
    finally:
        with context.database() as control:
            control.query("DROP DATABASE IF EXISTS apart")

    assert "other databases of this server missed" in known(outcome.ledger).note


SET_CLOCK = (
    "CREATE TABLE public.clock_step AS SELECT 0::float8 AS seconds",
    "ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO machines_clock",
    """CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
    'SELECT machines_clock() + seconds * interval ''1 s'' FROM public.clock_step'""",
)
"""Statements that give the server a clock of its own, which can be set."""
RESET_CLOCK = (
    "DROP FUNCTION pg_catalog.clock_timestamp()",
    "ALTER FUNCTION pg_catalog.machines_clock() RENAME TO clock_timestamp",
    "DROP TABLE public.clock_step",
)


def run_all(context: Context, statements: Sequence[str]) -> None:
    """Run statements one after the other."""
    with context.database() as other:
        for one in statements:
            other.query(one)


def test_a_servers_clock_that_is_set_changes_no_rate(context: Context) -> None:
    """The window is as long as it was by replayer's clock, and by how much it was set is said."""
    reading = "SELECT DISTINCT pid FROM pg_locks WHERE relation::regclass::text LIKE 'pgio_'"

    def jump() -> None:
        # A session that begins after it has its whole time by the new clock.
        with context.database() as other:
            wait_until(lambda: len(other.query(reading)) == spec_of().sessions)
        run_all(context, ["UPDATE public.clock_step SET seconds = 600"])

    run_all(context, SET_CLOCK)
    try:
        outcome = cached(context, {"sessions": jump}, run_time="300s")
    finally:
        run_all(context, RESET_CLOCK)
    (told,) = [note for note in outcome.notes if "clock was set forward by" in note]
    seconds = outcome.facts["sessions.window_s"]

    assert "by 600 s" in told
    assert isinstance(seconds, float)
    assert 0 < seconds < 300


@pytest.mark.slow
def test_other_sessions_beside_a_rate_are_told_of(context: Context) -> None:
    """There the counters are everybody's; from PostgreSQL 18 on each session has its own too."""
    with contextlib.ExitStack() as kept:

        def reads() -> None:
            other = kept.enter_context(context.database())
            connection._sessions.discard(other.session)  # it belongs to another user
            for _ in range(100):
                other.query("SELECT sum(scratch) FROM pgio1")
            other.query("SELECT pg_stat_force_next_flush()")

        outcome = cached(context, {"sessions": reads}, rate=20, run_time="2s", scale="16M")
    (told,) = [note for note in outcome.notes if note.startswith("other sessions of this database")]

    assert told.endswith("meanwhile, which are counted here")


def test_a_run_that_never_leaves_the_buffers_is_buffered(context: Context) -> None:
    """It is neither cached nor physical, whatever few blocks came from where."""
    # Each block is missed once, of some hundred times that it is wanted.
    work = {"work_unit": 255, "operations": 400, "scale": "8M"}
    outcome = perform(context, memory="cached", shared_buffers="64M", **work)
    balance = outcome.ledger

    assert balance
    assert (balance.asked, balance.verdict) == (ReadOrigin.CACHED, ReadOrigin.BUFFERED)
    assert balance.ratio is None
    assert balance.riops < 0.02 * balance.buffer_hits
    assert "in the server's own buffers" in balance.note
    # A number that says nothing heads neither a report nor a comparison.
    named = {m.metric: m for m in outcome.measurements}
    assert named["sessions.riops"].better is Better.NEITHER
    assert named["sessions.operations"].says == ""


def test_direct_step_reads_from_the_device(context: Context) -> None:
    """With direct I/O every missed block is a device read, as the device itself counts."""
    device = context.host.device_of(context.data_directory())
    if device is None:
        pytest.skip("the data directory is not on a block device")
    outcome = perform(context, memory="direct", work_unit=255, scale="16M")

    assert outcome.ledger
    assert outcome.ledger.verdict == ReadOrigin.PHYSICAL
    assert outcome.ledger.device == device
    assert outcome.ledger.ratio
    assert outcome.ledger.ratio > 0.97
    assert outcome.cold
    assert outcome.cold.got == Temperature.COLD
    assert outcome.facts["settings.debug_io_direct"] == "data"


def test_no_share_of_updates_is_made_of_counters_that_were_reset(context: Context) -> None:
    """Of what came before the reset more is lost than the step has updated since."""

    def reset() -> None:
        with context.database() as other:
            other.query("SELECT pg_stat_reset()")

    keys: dict[str, Any] = {"operations": 150, "update_pct": 60, "scale": "16M"}
    cached(context, **keys)
    outcome = cached(context, {"sessions": reset}, **{**keys, "operations": 10})

    assert "sessions.hot_update_share" not in outcome.facts
    assert any("counters of updated rows were reset" in note for note in outcome.notes)


def test_fixed_work_has_an_elapsed_time(context: Context) -> None:
    """With `operations` the work is fixed and its time is the result; updates are HOT."""
    outcome = perform(
        context, memory="cached", operations=150, update_pct=60, access="planner", scale="16M"
    )
    values = {m.metric: m.value for m in outcome.measurements}

    assert values["sessions.elapsed"] > 0
    assert [row["operations"] for row in outcome.tables["sessions"]] == [150, 150]
    assert sum(row["updates"] for row in outcome.tables["sessions"]) >= 2 * 60
    assert set(outcome.latency) == {"select", "update"}
    share = outcome.facts["sessions.hot_update_share"]
    assert isinstance(share, float)
    assert share > 0.95
    assert outcome.facts["sessions.plan"]


def test_larger_tables_of_an_earlier_run_are_not_warmed_where_they_do_not_fit(
    context: Context, database: Database
) -> None:
    """Tables of 32 MiB are skipped with their size on a machine of 16, whatever scale is."""

    class Small(Host):
        def usable_memory_bytes(self) -> int:
            return 16 << 20

    pgio.drop(database)
    provide(context, scale=4096, num_schemas=1)
    few = {"memory": "cached", "scale": 64, "num_schemas": 1, "work_unit": 8}
    with pytest.raises(Skip, match=r"more than fits .* 16\.0 MiB of memory; .* 4,096 rows"):
        perform(dataclasses.replace(context, host=Small()), **few)
    outcome = perform(context, run_time="1s", **few)
    # The step has restarted the server.
    with context.database() as other:
        pgio.drop(other)

    assert any("loaded the tables with 4,096 rows" in note for note in outcome.notes)


@pytest.mark.slow
def test_killed_server_ends_the_step_in_one_sentence(
    server_home: Path, surroundings: Surroundings
) -> None:
    """Kill -9 of the postmaster in the middle of a run is told, and the next run works."""
    data = copy(ready_data("postgres"), server_home / "killed")
    with open_server(engines.load("postgres"), data_dir=data) as server:
        server.start()
        context = surroundings(server)
        spec, _ = provide(context, run_time="3600s")
        main = server.pids()[0]

        def kill() -> None:
            with context.database() as other:
                wait_until(lambda: at_work(other))
            os.kill(main, signal.SIGKILL)

        with context.database() as database:
            meddled = hooked(context, begin={"sessions": kill})
            with pytest.raises(ReplayerError, match=r"sessions lost the server|refused|reported"):
                sessions_window.measure_window(spec, spec.tables(8192), meddled, database)
        # Until init has reaped it, its number is taken.
        wait_until(lambda: not Path(f"/proc/{main}").exists())
        server.start()

        assert provide(context)[1] == []


@pytest.mark.slow
def test_what_an_older_server_cannot_do_is_done_in_the_next_way(
    server_pool: ServerPool, postgres15: Path, surroundings: Surroundings
) -> None:
    """PostgreSQL 15 has no direct I/O: a cgroup takes its place, or the step is skipped."""
    context = surroundings(server_pool(bindir=postgres15))
    with pytest.raises(Skip, match=r"PostgreSQL 16, and this one is 15; memory = 'cgroup': "):
        sessions.check(spec_of(memory="direct", scale="1M"), context)
    large: dict[str, Any] = {"num_schemas": 1, "work_unit": 255, "scale": "64M"}
    outcome = cached(context, **large)
    assert outcome.ledger
    assert outcome.ledger.verdict == ReadOrigin.CACHED
    assert outcome.ledger.riops > 0
    if memory_bound.refusal("cgroup", context.host):
        pytest.skip("no memory cgroup can be made here")
    outcome = perform(context, memory="direct", memory_limit="32M", **large)

    assert outcome.facts["memory.kind"] == "cgroup"
    assert "it was done with memory = 'cgroup' instead" in outcome.notes[0]
    # 64 MiB of a table, and a page cache of some 20: make test-slow has larger ones.
    assert outcome.ledger
    assert outcome.ledger.device_reads
    assert outcome.ledger.device_reads > 0.5 * outcome.ledger.riops


def test_scale_smaller_than_a_work_unit_is_refused(context: Context) -> None:
    """A work unit that no table can hold is an impossible request."""
    with pytest.raises(Impossible, match="10 blocks, less than one work unit of 255"):
        sessions.check(spec_of(scale=10, work_unit=255, memory="cached"), context)
