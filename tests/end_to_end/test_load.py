"""Load on the real server: rates that are kept, stalls that are told, mixes, and what ends them."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from replayer.engines import driver
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import ReplayerError, Skip
from replayer.load import burn, dataset, wire
from replayer.load.level import Asked, check, measure_level
from replayer.load.mix import Mix
from replayer.load.requests import Statement
from replayer.load.wire import Gone
from replayer.servers.open import open_server
from replayer.steps.sessions import step as sessions
from replayer.tables.pgio import TableSet
from tests.halting import go_on, halt
from tests.performed import performed

TABLES = TableSet(2, 2048, 1)
EVERY_KIND = Mix(point=50, range=20, update=20, insert=8, scan=2, work_unit=16, hot="20%/80%")


@pytest.fixture
def loaded(context, database):
    """Return a function that measures a level on the shared server's tables."""
    dataset.provide_tables(TABLES, context)

    def measure(**keys):
        short = {"sessions": 4, "seconds": 2.0, "mix": Mix(point=1), "tables": TABLES}
        return measure_level(Asked(**{**short, **keys}), context, database)

    return measure


def within_the_window(level, begun):
    """Tell whether all that were begun were answered within it, but those under way at its end.

    Under way are at most those that begin while the slowest is answered: of Poisson's arrivals
    their mean and, but for once in 30,000 times, four standard deviations.
    """
    answered = round(level.completed * level.seconds)
    mean = level.offered * level.response.percentile_ns(100) / 1e9
    return 0 <= begun - answered <= 1 + mean + 4 * mean**0.5


def tables_there(database):
    """Return the names of all tables of the method."""
    return {row["name"] for row in database.execute("slob/tables")}


def test_a_closed_loop_keeps_every_session_busy(loaded):
    """Each has one statement under way all the time; Little's law holds within 2 %."""
    level = loaded()

    assert level.sustained
    assert level.completed > 1000
    assert level.counts["point"] == pytest.approx(level.completed * level.seconds)
    assert level.in_flight == pytest.approx(4, rel=0.02)
    assert level.little == pytest.approx(1, abs=0.02)
    assert level.completed * level.service.mean_ns / 1e9 == pytest.approx(4, rel=0.02)
    # An index's pages and the row's: at least three for each.
    assert level.activity.hits + level.activity.reads >= 3 * level.service.operations
    assert 0 < level.use.client < level.use.processors
    assert level.use.server > 0.05


@pytest.mark.parametrize("arrivals", ["poisson", "uniform"])
def test_a_rate_is_kept_to_half_a_percent(loaded, arrivals):
    """As many statements are begun and answered as the rate says, all of them on time or late."""
    level = loaded(rate=500, seconds=4.0, arrivals=arrivals)

    assert level.sustained, level.reason
    assert level.offered == 500
    assert level.begun == 500
    assert within_the_window(level, begun=2000)
    assert level.response.operations == level.service.operations == 2000
    assert level.response.total_ns >= level.service.total_ns
    assert sum(lag.begun for lag in level.lag) == 2000
    assert sum(level.answers) == 2000


def test_the_same_seed_sends_the_same_statements(loaded):
    """A level can be repeated statement by statement, whenever they are answered."""
    one, same, other = (
        loaded(rate=300, seconds=1.0, mix=EVERY_KIND, seed=seed).service_by_kind
        for seed in (5, 5, 6)
    )
    counts = [
        {kind: seen.operations for kind, seen in kinds.items()} for kinds in (one, same, other)
    ]

    assert counts[0] == counts[1]
    assert counts[0] != counts[2]


def test_clients_that_look_less_often_need_less_cpu_and_keep_the_rate(loaded):
    """What is due or answered is seen up to 2 ms late, which is in the times; nothing is lost."""
    at_once, later = (
        loaded(rate=2000, seconds=2.0, sessions=16, resolution=seconds) for seconds in (0, 0.002)
    )

    for level in (at_once, later):
        assert level.sustained, level.reason
        assert level.begun == 2000
        assert within_the_window(level, begun=4000)
    assert later.use.client < 0.8 * at_once.use.client
    assert later.response.percentile_ns(50) > at_once.response.percentile_ns(50)


@pytest.fixture
def window(context, monkeypatch):
    """Return what is set when the clock of a level begins, however long its start took."""
    opened, task = threading.Event(), context.progress.task

    def seen(title, *others, **keys):
        if title == "load":
            opened.set()
        return task(title, *others, **keys)

    monkeypatch.setattr(context.progress, "task", seen)
    return opened


@contextlib.contextmanager
def stopped(server, window, after, seconds):
    """Stop all processes of a server for a while, some seconds after the window opened.

    Yields a list that has the seconds for which they were stopped, at the end.
    """
    lasted = []

    def stop():
        window.wait(60)
        time.sleep(after)
        pids = server.pids()
        begin = time.monotonic()
        halt(pids)
        time.sleep(seconds)
        go_on(pids)
        lasted.append(time.monotonic() - begin)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield lasted
    finally:
        thread.join()


def stall_shows(loaded, server, window, *, seconds, stall):
    """Hold a level with a stall in it against what the stall makes of it, computed."""
    with stopped(server, window, seconds / 3, stall) as lasted:
        level = loaded(rate=500, seconds=seconds, sessions=4)
    # Whoever waits for the disk is halted when it has answered.
    stall = lasted[0]
    # Of all that arrive a share of (stall - x) / seconds has to wait for longer than x, if all who
    # came meanwhile are answered at once; of (stall - x) / (1 - u) / seconds if they are answered
    # one after the other, by a server that is busy for a share u of its time without a stall.
    expected, busy = stall - 0.01 * seconds, stall - 0.01 * seconds * (1 - 0.2)

    assert level.sustained, level.reason
    assert within_the_window(level, begun=round(500 * seconds))
    assert 0.9 * expected < level.response.percentile_ns(99) / 1e9 < 1.08 * busy
    assert level.service.percentile_ns(99) / 1e9 < expected / 10
    assert max(lag.longest for lag in level.lag) == pytest.approx(stall, rel=0.15)


def test_a_stall_is_in_the_response_time_of_all_who_came_meanwhile(loaded, server, window):
    """The server stands still for 0.5 of 6 s: p99 of the response is 0.44 s, of service small."""
    stall_shows(loaded, server, window, seconds=6.0, stall=0.5)


@pytest.mark.alone
@pytest.mark.slow
def test_a_stall_of_a_second_in_a_minute_is_a_p99_of_four_tenths(loaded, server, window):
    """With the server stopped for 1 s of 60 at 500/s the p99 of the response is near 0.40 s."""
    stall_shows(loaded, server, window, seconds=60.0, stall=1.0)


def test_a_rate_that_cannot_be_had_is_not_sustained(loaded):
    """A backlog that only grows is told, with how far behind it was, and what was given up."""
    mix = Mix(range=1, work_unit=1024)
    most = loaded(sessions=2, mix=mix, seconds=1.0).completed
    began = time.monotonic()
    level = loaded(sessions=2, mix=mix, rate=8 * most, seconds=3.0, patience=0.5)

    assert not level.sustained
    assert "the backlog only grew" in level.reason
    assert "were given up" in level.reason
    assert time.monotonic() - began < 20
    assert level.begun < level.offered == pytest.approx(8 * most, rel=0.01)


def test_a_backlog_is_run_and_not_skipped(loaded):
    """A rate above what there is leaves a backlog, all of which is run after the window."""
    mix = Mix(range=1, work_unit=1024)
    most = loaded(sessions=2, mix=mix, seconds=1.0).completed
    level = loaded(sessions=2, mix=mix, rate=8 * most, seconds=0.5, patience=60.0)

    assert not level.sustained
    assert level.begun == level.offered
    assert level.response.operations == pytest.approx(level.offered * 0.5)
    assert level.completed < 0.8 * level.offered
    assert len(level.answers) >= 2


def test_every_kind_of_statement_does_what_it_says(loaded, database):
    """Reads, updates, inserts and scans at once, in their proportions, counted by the server."""
    before = database.query("SELECT sum(n_tup_upd) AS n FROM pg_stat_user_tables")[0]["n"]
    level = loaded(rate=400, seconds=3.0, mix=EVERY_KIND, sessions=6)
    after = database.query("SELECT sum(n_tup_upd) AS n FROM pg_stat_user_tables")[0]["n"]
    done = {kind: seen.operations for kind, seen in level.service_by_kind.items()}
    rows = sum(
        int(row["sum"])
        for name in TABLES.names
        for row in database.query(f"SELECT sum(scratch) AS sum FROM {name}")
    )

    assert level.sustained, level.reason
    assert sum(done.values()) == 1200
    for kind, share in EVERY_KIND.shares.items():
        assert done[kind] / 1200 == pytest.approx(share, abs=0.05)
    assert after - before == done["update"]
    assert level.activity.commits >= 1200
    assert level.activity.wal_bytes > 100 * (done["update"] + done["insert"])
    assert level.activity.wal_flushes > 0
    # A scan reads all 2,048 blocks of a table.
    assert level.activity.hits + level.activity.reads > 2048 * done["scan"]
    assert rows > 0
    assert tables_there(database) == set(TABLES.names)


def test_inserts_are_committed_row_by_row_and_removed(loaded, context, database):
    """The table for them is there while they are made, and not when they were."""
    seen = []

    def look():
        with context.database() as other:
            end = time.monotonic() + 10
            while not seen and time.monotonic() < end:
                with contextlib.suppress(ReplayerError):
                    rows = other.query(
                        "SELECT count(*) AS n, count(DISTINCT mykey) AS keys, "
                        "max(length(filler)) AS longest FROM pgio0"
                    )
                    seen.extend(row for row in rows if row["n"])

    thread = threading.Thread(target=look)
    thread.start()
    level = loaded(mix=Mix(insert=1, insert_bytes=77), rate=500, seconds=1.5)
    thread.join()

    assert level.service_by_kind["insert"].operations == 750
    assert within_the_window(level, begun=750)
    assert seen[0]["n"] == seen[0]["keys"]
    assert seen[0]["longest"] == 77
    assert tables_there(database) == set(TABLES.names)


def test_the_table_of_inserts_of_a_killed_run_is_removed(loaded, context, database):
    """Whoever provides tables next finds what was left, and drops it."""
    del loaded
    left = dataset.place_for_inserts(database)
    left.__enter__()
    assert "pgio0" in tables_there(database)
    dataset.provide_tables(TABLES, context)

    assert tables_there(database) == set(TABLES.names)


@pytest.mark.slow
def test_hot_rows_are_found_in_the_buffers(loaded, context):
    """With buffers for a quarter of the rows, most accesses to a tenth of them are hits."""
    small = {"shared_buffers": "4MB"}
    ratios = []
    with context.server.settings(small), context.database() as database:
        for hot in ("", "5%/95%"):
            asked = Asked(sessions=2, seconds=1.0, mix=Mix(point=1, hot=hot), tables=TABLES)
            measure_level(asked, context, database)
            ratios.append(measure_level(asked, context, database).hit_ratio)
    del loaded

    assert ratios[0] < 0.9
    assert ratios[1] > ratios[0] + 0.05


@pytest.mark.slow
@pytest.mark.alone
def test_a_statement_burns_what_it_costs_elsewhere(loaded, context, database):
    """The CPU of the server for each statement is the one asked for, measured over the window."""
    mix = Mix(point=3, range=1, update=1, work_unit=8, cpu="3ms")
    asked = Asked(sessions=2, seconds=3.0, rate=100, mix=mix, tables=TABLES)
    costs = []
    # A virtual machine's processors may change their speed between what is calibrated and what is
    # measured: once of three times it has to be right.
    for _ in range(3):
        found = burn.calibrate(asked, context, database)
        level = loaded(sessions=2, seconds=3.0, rate=100, mix=mix, burn=found.units)
        assert found.bare_seconds < 0.001
        assert level.sustained, level.reason
        costs.append(level.use.server * level.use.seconds / sum(level.counts.values()))
        if costs[-1] == pytest.approx(0.003, rel=0.15):
            return
    pytest.fail(f"3 ms were asked for, and a statement cost {costs} s")


def test_waits_tell_what_sessions_wait_for(loaded):
    """Sessions that update one row wait for each other, and that is what is seen of them."""
    one_row = Mix(update=1, hot="0.05%/100%")
    level = loaded(sessions=8, mix=one_row, seconds=3.0)

    assert any(wait.startswith("Lock:") for wait in level.waits), level.waits
    assert level.lock_waiting > 0.5


def test_a_killed_backend_ends_the_level_in_one_sentence(loaded, database):
    """A session that the server ended is told, with what the server said of it."""

    def kill():
        killed = []
        with contextlib.closing(Database(database.engine, database.url)) as other:
            while not killed:
                time.sleep(0.1)
                killed = other.query(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name "
                    "= 'replayer session 2' AND query_start - backend_start > '1.5s'"
                )

    thread = threading.Thread(target=kill)
    thread.start()
    began = time.monotonic()
    with pytest.raises(ReplayerError, match=r"the load lost the server .*terminat") as caught:
        loaded(rate=200, seconds=30.0)
    thread.join()

    assert "\n" not in str(caught.value)
    assert time.monotonic() - began < 15


def test_a_killed_server_ends_the_level_in_one_sentence(server_home, surroundings):
    """Kill -9 of the postmaster in the middle is told; the next start removes what was made."""
    with open_server(engines.load("postgres"), data_dir=server_home / "killed-load") as server:
        server.start()
        context = surroundings(server)
        dataset.provide_tables(TABLES, context)
        thread = threading.Timer(1.5, lambda: os.kill(server.pids()[0], signal.SIGKILL))
        with context.database() as database:
            thread.start()
            asked = Asked(sessions=4, seconds=60.0, rate=300, mix=EVERY_KIND, tables=TABLES)
            with pytest.raises(ReplayerError, match=r"lost the server|refused|said|closed") as gone:
                measure_level(asked, context, database)
            thread.join()
        time.sleep(1)
        with context.database() as database:
            dataset.provide_tables(TABLES, context)
            left = tables_there(database)

    assert "\n" not in str(gone.value)
    assert left == set(TABLES.names)


AGAIN = """
CREATE FUNCTION pg_temp.again(bigint) RETURNS bigint LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'a deadlock' USING ERRCODE = '40P01'; END $$
"""
SPOKEN = {
    "SELECT $1": True,
    "SELECT $1 WHERE $1 < 0": True,
    "SELECT $1, repeat('x', 300000)": True,
    "SELECT generate_series(1, $1 + 20000)": True,
    "SELECT pg_temp.again($1)": None,
}


def answer(session, place, number=5):
    """Send a statement and return what its answer says."""
    session.send(place, session.packing.prefix + number.to_bytes(8, "big"))
    while (end := session.receive()) is False:
        select.select([session], [], [], 10)
    return end


@pytest.mark.parametrize("kind", [wire.Postgres, wire.Encrypted])
def test_answers_of_every_shape_are_taken_to_their_end(server, database, kind):
    """Over libpq and by our own messages: one row, none, long ones, many, refusals, and the end."""
    server.start()
    connection = driver.connect(database.connector(), AGAIN)
    with contextlib.closing(kind(connection)) as session:
        texts = [*SPOKEN, "SELECT 1 / ($1 - 5)"]
        session.prepare([Statement("point", text, ("first",), 1, 1, 0) for text in texts])
        for _ in range(2):
            ends = [answer(session, place) for place in range(len(SPOKEN))]
            assert ends == list(SPOKEN.values())
        with pytest.raises(Gone, match=r"the database said: .*division by zero"):
            answer(session, len(SPOKEN))
    gone = kind(driver.connect(database.connector()))
    with contextlib.closing(gone) as session:
        session.prepare([Statement("point", "SELECT $1", ("first",), 1, 1, 0)])
        database.query(f"SELECT pg_terminate_backend({connection_id(session)})")
        time.sleep(0.2)
        with pytest.raises(Gone, match="terminating connection due to administrator command"):
            answer(session, 0)


def connection_id(session):
    """Return the server's process of a session."""
    return session._connection.info.backend_pid


def test_an_engine_without_such_statements_says_so():
    """It is one sentence, and the other steps go on."""
    asked = Asked(sessions=1, seconds=1, mix=Mix(point=1), tables=TABLES)
    with pytest.raises(Skip, match="ColumnStore: its tables have no index"):
        check(asked, engines.load("columnstore"))
    with pytest.raises(Skip, match=r"no mix/session\.sql"):
        check(asked, engines.load("singlestore"))


def test_more_statements_than_a_session_prepares_are_refused():
    """Each table has its own, and each session all of them."""
    many = Asked(sessions=1, seconds=1, mix=EVERY_KIND, tables=TableSet(200, 100, 1))
    with pytest.raises(Skip, match="use fewer tables"):
        check(many, engines.load("postgres"))


# The step


def values_of(outcome):
    """Return metric -> value."""
    return {m.metric: m.value for m in outcome.measurements}


def perform(context, **keys):
    """Perform a step of sessions on the shared server."""
    small = {"num_schemas": 2, "num_threads": 2, "scale": 2048, "run_time": "2s"}
    spec = sessions.Spec.model_validate(
        {"step": "sessions", "name": "sessions", "memory": "cached", **small, **keys}
    )
    return performed(sessions, spec, context)


def test_a_step_at_a_rate_has_both_times_and_the_lag(context):
    """Response and service time are two histograms, lag is a series, and nothing is missing."""
    outcome = perform(context, rate=300, mix="point=8 update=1 insert=1 hit_ratio=0.5")
    values = values_of(outcome)

    assert outcome.facts["sessions.sustained"] is True
    assert values["sessions.offered"] == values["sessions.begun"] == 300
    assert values["sessions.completed"] == pytest.approx(300, rel=0.01)
    assert values["sessions.response.p50"] >= values["sessions.service.p50"] > 0
    assert {"response", "service", "point", "update", "insert"} <= set(outcome.latency)
    assert 0 <= values["sessions.hit_ratio"] <= 100
    assert values["sessions.commits"] >= 250
    assert outcome.writes
    assert len(outcome.series.columns["sessions.lag"]) == len(outcome.series.seconds)
    assert any("50.00% were asked for" in note for note in outcome.notes)
    assert any("not tested by this mix: joins" in note for note in outcome.notes)
    assert [row["kind"] for row in outcome.tables["kinds"]] == ["point", "update", "insert"]


def test_a_rate_without_a_mix_sends_the_steps_own_statements(context):
    """SELECTs of a work unit, and UPDATEs in their share."""
    outcome = perform(context, rate=200, work_unit=32, update_pct=20, update_work_unit=2)

    assert [row["kind"] for row in outcome.tables["kinds"]] == ["range", "update"]
    assert values_of(outcome)["sessions.completed"] == pytest.approx(200, rel=0.02)


def test_a_mix_without_a_rate_is_a_closed_loop(context):
    """It is as fast as it is answered: the number of statements is what was found out."""
    outcome = perform(context, mix="point=9 range=1 work_unit=16")
    values = values_of(outcome)

    assert values["sessions.completed"] > 500
    assert "sessions.offered" not in values
    assert "response" not in outcome.latency
    assert values["sessions.in_flight"] == pytest.approx(4, rel=0.05)


def test_no_percentile_is_told_of_a_rate_that_is_not_sustained(context):
    """What would grow for as long as one watches is no number."""
    outcome = perform(context, rate=400_000, mix="range=1 work_unit=512", run_time="6s")
    metrics = values_of(outcome)

    assert outcome.facts["sessions.sustained"] is False
    assert not any(".p" in metric or "lag" in metric for metric in metrics)
    assert not outcome.latency
    assert any(note.startswith("not sustained: the backlog") for note in outcome.notes)


WORKLOAD = """
# A test.
description = "a test"
[[step]]
step = "sessions"
name = "rate"
num_schemas = 1
num_threads = 4
scale = 1024
memory = "cached"
run_time = "{seconds}s"
rate = 200
mix = "point=80 update=10 insert=10"
"""


@pytest.fixture
def running(tmp_path, made_home):
    """Return a function that starts `replayer run` of a load in a home of its own."""
    del made_home

    def start(seconds):
        workload = tmp_path / "load.toml"
        workload.write_text(WORKLOAD.format(seconds=seconds))
        command = [sys.executable, "-m", "replayer", "run", workload, "--results", tmp_path / "r"]
        return subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start


@pytest.mark.slow
def test_the_report_says_whether_the_rate_was_sustained(running):
    """In one line, with the mix below it, and both times."""
    report, errors = running(2).communicate(timeout=120)

    assert "200/s asked, 200/s begun" in report, errors
    assert "answered in the window: sustained" in report
    assert "response" in report
    assert "service p50" in report
    assert re.search(r"^  lag  .* [mu]?s to .* [mu]?s$", report, re.MULTILINE)


@pytest.mark.slow
def test_ctrl_c_in_the_middle_leaves_nothing(running):
    """It ends at once, says so in a sentence, and neither processes nor notes are left."""
    replayer = running(60)
    time.sleep(9)
    replayer.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, errors = replayer.communicate(timeout=60)

    assert replayer.returncode == 130, errors
    assert time.monotonic() - began < 20
    assert "Traceback" not in errors
