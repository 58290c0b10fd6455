"""The SLOB method against the real server: tables, sessions, windows, verdicts and failures."""

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from replayer.conditions import memory_bound
from replayer.engines import driver
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import Impossible, ReplayerError, Skip
from replayer.machine import processes
from replayer.machine.host import Host
from replayer.model import Better, Temperature, Verdict, Workload
from replayer.report.progress import Lines
from replayer.run.context import Context
from replayer.servers.open import open_server
from replayer.steps.sessions import preparation as sessions_preparation
from replayer.steps.sessions import step as sessions
from replayer.steps.sessions import window as sessions_window
from replayer.tables import pgio
from replayer.tables.pgio import TableSet
from replayer.watch import foreign
from replayer.watch.sampler import Sampler
from replayer.watch.workers import WorkerPool
from tests.beside import beside
from tests.performed import performed

pytestmark = pytest.mark.alone

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
NAMES = {
    "sessions.riops", "sessions.cache_hits", "sessions.device_reads", "sessions.latency.p50",
    "sessions.latency.p95", "sessions.latency.p99", "sessions.latency.p999",
    "sessions.latency.max", "sessions.client_cpu",
}  # fmt: skip


def spec_of(**keys):
    """Return a small spec; every key can be set."""
    small = {"num_schemas": 2, "num_threads": 1, "scale": 1024, "work_unit": 32, "run_time": "1s"}
    return sessions.Spec(step="sessions", name="sessions", **{**small, **keys})


def context_of(server, sampler=None):
    """Return a step's surroundings on a server."""
    return Context(
        host=Host(),
        workload=Workload(name="test", source="", description="", comment="", steps=()),
        progress=Lines(io.StringIO()),
        sampler=sampler,
        storage=server.data_directory() or Path("/tmp"),
        database_server=server,
    )


def perform(server, **keys):
    """Run a whole step and return its outcome."""
    host = Host()
    with Sampler(host, host.device_of(server.data_directory())) as sampler:
        return performed(sessions, spec_of(**keys), context_of(server, sampler))


def undisturbed(server, **keys):
    """Run a cached step, again if somebody else on the machine dropped the page cache meanwhile."""
    for _ in range(3):
        outcome = perform(server, memory="cached", **keys)
        if not any("displaced" in note for note in outcome.notes):
            break
    return outcome


def provide(server, **keys):
    """Load the tables of a spec where they are not there; return the spec and the notes."""
    spec = spec_of(**keys)
    return spec, sessions_preparation.provide_tables(spec.tables(8192), context_of(server))


def work(database, spec, during=lambda: None):
    """Run the sessions of a spec on the running server, without restarts; return their results."""
    jobs = list(sessions_window._jobs(spec, spec.tables(8192), database, 0.1))
    with WorkerPool(pgio.session, jobs, processes=1) as pool:
        pool.open()
        during()
        return pool.results(timeout=60)


def keys_of(database, name):
    """Return the keys of a table in physical order."""
    return [row["mykey"] for row in database.query(f"SELECT mykey FROM {name} ORDER BY ctid")]


# Tables


@pytest.mark.parametrize("rows", [1000, 1024])
def test_tables_have_one_row_per_block_and_every_key_once(server, database, rows):
    """Blocks = rows, an index, mykey in an order unrelated to the physical one, and all keys."""
    provide(server, scale=rows)
    for table in pgio.layout(database, ["pgio1", "pgio2"]):
        assert table.rows == table.blocks
        assert table.indexed
        assert abs(table.correlation) < 0.15
        assert not table.flaw(rows)
    first, second = keys_of(database, "pgio1"), keys_of(database, "pgio2")

    assert sorted(first) == list(range(1, len(first) + 1))
    assert first != second
    assert len(first) >= rows


def test_order_of_keys_depends_on_the_seed_alone(database):
    """The same seed gives the same tables, from one loading session or several."""
    orders = []
    for seed, loaders in ((7, 1), (7, 2), (8, 2)):
        pgio.drop(database)
        wanted = TableSet(tables=2, rows=700, seed=seed)
        assert sum(pgio.load(database, wanted, loaders, "test")) == 1400
        orders.append(keys_of(database, "pgio2"))

    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_whole_set_is_reused_and_a_smaller_one_is_not(server, database):
    """Loading is done only when it has to be: larger is usable, smaller or another seed is not."""
    provide(server, scale=1024, seed=3)
    oid = database.query("SELECT 'pgio1'::regclass::oid AS oid")
    same = provide(server, scale=1024, seed=3)[1]
    larger_is_there = provide(server, scale=512, seed=3)[1]

    assert same == larger_is_there == []
    assert database.query("SELECT 'pgio1'::regclass::oid AS oid") == oid
    assert "fewer" in provide(server, scale=2048, seed=3)[1][0]
    assert "seed 3" in provide(server, scale=2048, seed=4)[1][0]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("DROP INDEX pgio1_mykey", "no index on mykey"),
        ("DELETE FROM pgio1 WHERE mykey = 5", "rows in 1,024 blocks"),
        ("TRUNCATE pgio1", "0 rows, fewer"),
        ("DROP TABLE pgio2", "not there yet: pgio2"),
        ("CLUSTER pgio1 USING pgio1_mykey; ANALYZE pgio1", "physical order"),
        ("ALTER TABLE pgio1 SET (fillfactor = 100); VACUUM FULL pgio1; ANALYZE pgio1", "blocks"),
        ("COMMENT ON TABLE pgio1 IS NULL", "not loaded to its end"),
    ],
)
def test_damaged_tables_are_found_and_loaded_again(server, database, damage, reason):
    """Whatever the layout check finds is named, and the next run works on whole tables."""
    spec, _ = provide(server)
    for statement in damage.split(";"):
        database.query(statement)

    assert reason in pgio.flaws(database, spec.tables(8192))[0]
    assert reason in provide(server)[1][0]
    assert pgio.flaws(database, spec.tables(8192)) == []


def test_layout_that_stays_wrong_stops_the_run(server, database, monkeypatch):
    """A load that does not give one row per block ends with the reason, not with a number."""
    broken = Path(__file__).parents[2] / "schemas/postgres/slob/create.sql"
    text = broken.read_text().replace("fillfactor = 10", "fillfactor = 100")
    real = engines.Engine.verb

    def verb(engine, name):
        found = real(engine, name)
        return engines.Verb(name, broken, text) if name == "slob/create" else found

    monkeypatch.setattr(engines.Engine, "verb", verb)
    pgio.drop(database)

    with pytest.raises(ReplayerError, match=r"layout .* each block must hold one row"):
        provide(server)
    pgio.drop(database)


def test_interrupted_load_leaves_no_table(server, database):
    """A table whose load was cut short was never there; the next run loads it."""
    pgio.drop(database)
    loading = pgio.load(database, TableSet(tables=1, rows=200_000, seed=1), 1, "test")
    assert next(rows for rows in loading if rows) > 0
    loading.close()
    spec = spec_of(num_schemas=1)

    assert "not there yet" in pgio.flaws(database, spec.tables(8192))[0]
    assert "not there yet" in provide(server, num_schemas=1)[1][0]


def test_foreign_table_is_refused_and_kept(server, database):
    """A table of ours in name only is not touched."""
    pgio.drop(database)
    database.query("CREATE TABLE pgio2 AS SELECT 42 AS answer")
    try:
        with pytest.raises(Impossible, match="pgio2 is there and was not made by replayer"):
            provide(server)
        assert database.query("SELECT answer FROM pgio2") == [{"answer": 42}]
    finally:
        database.query("DROP TABLE pgio2")


def test_too_little_space_is_refused_with_both_numbers(server, database):
    """Nothing is loaded when it cannot fit."""
    pgio.drop(database)
    with pytest.raises(Impossible, match=r"needs [\d.,]+ TiB and .* has [\d.,]+ .iB free"):
        provide(server, scale="1T", num_schemas=64)

    assert database.execute("slob/tables") == []


# Sessions


@pytest.mark.parametrize("percentage", [0, 1, 50, 51, 75, 99, 100])
def test_update_percentage_is_exact_in_every_window_of_100(server, database, percentage):
    """Of every 100 statements exactly update_pct are UPDATEs, for all of 0 to 100."""
    spec, _ = provide(server, update_pct=percentage, operations=200)

    for result in work(database, spec):
        assert (result.updates, result.selects) == (2 * percentage, 200 - 2 * percentage)
        assert sum(result.select.values()) == result.selects
        assert sum(result.update.values()) == result.updates


def test_same_seed_touches_the_same_keys(server, database):
    """A run can be repeated key by key, and every session has a sequence of its own."""
    spec, _ = provide(
        server, num_threads=2, update_pct=100, update_work_unit=1, operations=40, seed=1
    )

    def touched():
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


def test_keys_reach_both_ends(server, database):
    """The first and the last rows are touched too: pgio never reaches the last."""
    pgio.drop(database)
    single = {"work_unit": 1, "update_work_unit": 1, "update_pct": 100}
    spec, _ = provide(server, num_schemas=1, scale=16, operations=600, **single)
    query = "SELECT scratch FROM pgio1 WHERE mykey IN (1, 16) ORDER BY mykey"
    before = [row["scratch"] for row in database.query(query)]
    work(database, spec)
    after = [row["scratch"] for row in database.query(query)]

    assert all(now - then > 10 for now, then in zip(after, before, strict=True))


def test_counters_move_by_the_blocks_that_sessions_touched(server, database):
    """Nothing is counted outside of the window, and nothing inside of it is missed."""
    spec, _ = provide(server, num_threads=2, work_unit=255)
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


def test_work_is_committed_while_sessions_run(server, database):
    """Updates are visible, and rows free, in the middle of a run."""
    spec, _ = provide(
        server, num_schemas=1, update_pct=100, update_work_unit=64, work_unit=64, scale=64,
        run_time="2s",
    )  # fmt: skip
    seen = []

    def during():
        database.query("SET lock_timeout = '1s'")
        for _ in range(5):
            database.query("UPDATE pgio1 SET scratch = scratch WHERE mykey = 7")
            seen.append(database.query("SELECT sum(scratch)::bigint AS s FROM pgio1")[0]["s"])
            time.sleep(0.05)

    pgio.drop(database)
    provide(server, num_schemas=1, scale=64, work_unit=64, update_work_unit=64)
    results = work(database, spec, during)

    assert seen == sorted(seen)
    assert len(set(seen)) == 5
    assert results[0].updates > 10


def test_deadlock_is_counted_and_tried_again(server, database):
    """A session that was chosen to end a deadlock goes on with the same UPDATE."""
    wide = {"scale": 64, "work_unit": 64, "update_work_unit": 64, "num_schemas": 1}
    pgio.drop(database)
    spec, _ = provide(server, update_pct=100, num_threads=3, run_time="2s", **wide)
    done = threading.Event()

    def quarrel():
        # Against the order of the index, and more patient than the sessions are.
        connector = database.connector()
        refused = driver.driver_error(connector)
        with contextlib.closing(driver.connect(connector, "SET deadlock_timeout = '500ms'")) as own:
            cursor = own.cursor()
            while not done.is_set():
                cursor.execute("BEGIN")
                with contextlib.suppress(refused):
                    for key in (60, 40, 20, 5):
                        cursor.execute(f"UPDATE pgio1 SET scratch = scratch WHERE mykey = {key}")
                        time.sleep(0.02)
                cursor.execute("ROLLBACK")

    thread = threading.Thread(target=quarrel)
    name = database.url.database
    database.query(f"ALTER DATABASE {name} SET deadlock_timeout = '50ms'")
    try:
        results = work(database, spec, thread.start)
    finally:
        database.query(f"ALTER DATABASE {name} RESET deadlock_timeout")
        done.set()
        thread.join()

    assert sum(result.deadlocks for result in results) >= 1
    assert all(result.updates > 0 for result in results)


def test_lost_connection_is_counted_and_told(server, database):
    """A session whose backend was ended makes the step fail in one sentence, at once."""
    provide(server)
    kill = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'replayer session 2'"
    )

    def cut():
        deadline = time.monotonic() + 30
        busy = kill.replace("pg_terminate_backend(pid)", "pid") + " AND query LIKE 'CALL%'"
        while not database.query(busy + " AND state = 'active' AND now() - query_start > '0.1s'"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        database.query(kill)

    context = context_of(server)
    spec = spec_of(run_time="60s")
    thread = threading.Thread(target=cut)
    thread.start()
    with (
        Sampler(Host(), None) as context.sampler,
        pytest.raises(ReplayerError, match="1 of 2 sessions lost the server"),
    ):
        sessions_window.measure_window(spec, spec.tables(8192), context, database)
    thread.join()


# Whole steps


def test_cached_step_is_served_by_the_page_cache(server):
    """RIOPS without device reads, every measurement there, and the line that people look for."""
    outcome = undisturbed(server, work_unit=255, run_time="2s", scale="16M")
    values = {m.metric: m.value for m in outcome.measurements}

    assert values.keys() >= NAMES
    assert outcome.ledger.verdict == Verdict.CACHED
    assert outcome.cold.got == Temperature.HOT
    assert values["sessions.riops"] > 1000
    assert 0 < values["sessions.latency.p50"] <= values["sessions.latency.p99"]
    assert values["sessions.latency.p999"] <= values["sessions.latency.max"] * 1.001
    assert re.fullmatch(
        r"DBNAME:  pgio\. 2 schemas, 1 threads\(each\)\. Run time: 2 seconds\. "
        rf"RIOPS >{int(values['sessions.riops'])}< "
        rf"CACHE_HITS/s >{int(values['sessions.cache_hits'])}<",
        outcome.printed["pgio"][0],
    )
    assert "Index Scan using pgio1_mykey" in " ".join(outcome.facts["sessions.plan"])
    assert len(outcome.series.columns["sessions.riops"]) == len(outcome.series.seconds) >= 1
    assert outcome.latency["select"].operations == sum(
        row["operations"] for row in outcome.tables["sessions"]
    )
    # The next step finds the server as it was.
    with context_of(server).database() as database:
        assert database.query("SHOW track_io_timing")[0]["track_io_timing"] == "on"


def test_busy_loops_beside_a_cached_run_are_told(server, tmp_path):
    """Two programs that only compute take what the server would have had: how much, and which."""
    program = tmp_path / "busy-loop"
    shutil.copy("/bin/sh", program)
    loop = f"exec {program} -c 'while :; do :; done'"
    with beside(loop, many=2):
        outcome = undisturbed(server, work_unit=255, run_time="2s", scale="16M")

    assert outcome.foreign.cpu_share > 0.1
    assert any(text.startswith("busy-loop") for text in outcome.foreign.programs)


def accounts_of(host, pids):
    """Return the busy time of all processors, and what all processes used."""
    point = foreign.point(host, pids)
    return point, sum(process.cpu + process.reaped for process in processes.table())


def test_the_servers_work_is_not_taken_for_others(server):
    """What sessions of one's own cost is in nobody else's account: all accounts add up."""
    host = Host()
    spec, _ = provide(server, num_threads=2, work_unit=255, scale="16M", run_time="3s")
    with context_of(server).database() as database:
        first, before = accounts_of(host, foreign.pids_of(server))
        results = work(database, spec)
        last, after = accounts_of(host, foreign.pids_of(server))
    own = last.known - first.known
    of_others = (after - before) - own
    share = foreign.between(first, last, None).cpu_share
    told = share * (last.clock - first.clock) * last.processors

    assert own > 0.3 * max(result.ended - result.began for result in results)
    assert told == pytest.approx(of_others, abs=0.15 * (after - before) + 0.3)


def test_foreign_reads_beside_a_cached_run_are_named(server, server_home):
    """The run is cached, the device is busy for others, and that is said with its number."""
    if Host().device_of(server.data_directory()) is None:
        pytest.skip("the data directory is not on a block device")
    other = server_home / "foreign"
    other.write_bytes(os.urandom(16 << 20))
    subprocess.run(["sync", other], check=True)
    reads = f"while :; do dd if={other} of=/dev/null bs=4k iflag=direct; done"
    with beside(reads, many=4):
        outcome = undisturbed(server, work_unit=16, num_schemas=1, run_time="3s", scale="16M")
    other.unlink()

    assert outcome.ledger.verdict == Verdict.CACHED
    assert outcome.cold.own_bytes < 0.02 * outcome.cold.device_bytes
    assert "other processes read" in outcome.ledger.note


def test_a_run_that_never_leaves_the_buffers_is_buffered(server):
    """It is neither cached nor physical, whatever few blocks came from where."""
    outcome = perform(
        server, memory="cached", shared_buffers="64M", work_unit=255, run_time="3s", scale="8M"
    )
    balance = outcome.ledger

    assert (balance.asked, balance.verdict) == (Verdict.CACHED, Verdict.BUFFERED)
    assert balance.ratio is None
    assert balance.riops < 0.02 * balance.buffer_hits
    assert "in the server's own buffers" in balance.note
    # A number that says nothing heads neither a report nor a comparison.
    named = {m.metric: m for m in outcome.measurements}
    assert named["sessions.riops"].better is Better.NEITHER
    assert named["sessions.operations"].says == ""


def test_direct_step_reads_from_the_device(server):
    """With direct I/O every missed block is a device read, as the device itself counts."""
    device = Host().device_of(server.data_directory())
    if device is None:
        pytest.skip("the data directory is not on a block device")
    outcome = perform(server, memory="direct", work_unit=255, run_time="2s", scale="16M")

    assert outcome.ledger.verdict == Verdict.PHYSICAL
    assert outcome.ledger.device == device
    assert outcome.ledger.ratio > 0.97
    assert outcome.cold.got == Temperature.COLD
    assert outcome.facts["settings.debug_io_direct"] == "data"


def test_fixed_work_has_an_elapsed_time(server):
    """With `operations` the work is fixed and its time is the result; updates are HOT."""
    outcome = perform(
        server, memory="cached", operations=150, update_pct=60, access="planner", scale="16M"
    )
    values = {m.metric: m.value for m in outcome.measurements}

    assert values["sessions.elapsed"] > 0
    assert [row["operations"] for row in outcome.tables["sessions"]] == [150, 150]
    assert sum(row["updates"] for row in outcome.tables["sessions"]) >= 2 * 60
    assert set(outcome.latency) == {"select", "update"}
    assert outcome.facts["sessions.hot_update_share"] > 0.95
    assert outcome.facts["sessions.plan"]


def test_killed_server_ends_the_step_in_one_sentence(server_home):
    """Kill -9 of the postmaster in the middle of a run is told, and the next run works."""
    with open_server(engines.load("postgres"), data_dir=server_home / "killed") as server:
        server.start()
        killed = []

        def kill():
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                with contextlib.suppress(ReplayerError, IndexError):
                    url = server.start()
                    with contextlib.closing(Database(server.engine, url)) as database:
                        busy = database.query(
                            "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CALL%' "
                            "AND now() - query_start > '0.1s'"
                        )
                    if busy:
                        killed.append(server.pids()[0])
                        os.kill(killed[0], signal.SIGKILL)
                        return
                time.sleep(0.1)

        provide(server)
        thread = threading.Thread(target=kill)
        context = context_of(server)
        with context.database() as database, Sampler(Host(), None) as context.sampler:
            thread.start()
            spec = spec_of(run_time="60s")
            with pytest.raises(ReplayerError, match=r"sessions lost the server|refused|said"):
                sessions_window.measure_window(spec, spec.tables(8192), context, database)
            thread.join()
        while Path(f"/proc/{killed[0]}").exists():
            time.sleep(0.05)  # until init has reaped it, its number is taken
        server.start()

        assert provide(server)[1] == []


def test_what_an_older_server_cannot_do_is_done_in_the_next_way(server_home):
    """PostgreSQL 15 has no direct I/O: a cgroup takes its place, or the step is skipped."""
    if not DEBIAN_15.is_dir():
        pytest.skip("PostgreSQL 15 is not installed in /usr/lib/postgresql/15")
    with open_server(
        engines.load("postgres"), bindir=DEBIAN_15, data_dir=server_home / "15"
    ) as old:
        old.start()
        with pytest.raises(Skip, match=r"PostgreSQL 16, and this one is 15; memory = 'cgroup': "):
            sessions.check(spec_of(memory="direct", scale="1M"), context_of(old))
        outcome = undisturbed(old, work_unit=255, scale="16M")
        assert outcome.ledger.verdict == Verdict.CACHED
        assert outcome.ledger.riops > 1000
        if memory_bound.refusal("cgroup", Host()):
            pytest.skip("no memory cgroup can be made here")
        outcome = perform(old, memory="direct", work_unit=255, scale="64M", memory_limit="32M")

    assert outcome.facts["memory.kind"] == "cgroup"
    assert "it was done with memory = 'cgroup' instead" in outcome.notes[0]
    # 128 MiB of tables, and a page cache of some 20: make test-slow has larger ones.
    assert outcome.ledger.device_reads > 0.5 * outcome.ledger.riops


def test_scale_smaller_than_a_work_unit_is_refused(server):
    """A work unit that no table can hold is an impossible request."""
    with pytest.raises(Impossible, match="10 blocks, less than one work unit of 255"):
        sessions.check(spec_of(scale=10, work_unit=255, memory="cached"), context_of(server))
