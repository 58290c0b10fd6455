"""Load on the real server: rates that are kept, stalls that are told, mixes, and what ends them."""

import contextlib
import math
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from replayer.engines import driver
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.engines.wire_session import ConnectionGone, DriverStatement, WireSession, await_answer
from replayer.engines.wires.postgres.postgres_connection import (
    EncryptedPostgresConnection,
    PostgresConnection,
)
from replayer.errors import ReplayerError, Skip
from replayer.load import cpu_burn, dataset
from replayer.load import level as levels
from replayer.load.level import LevelRequest, LevelResult, check, measure_level
from replayer.load.mix import WeightedMix
from replayer.machine import processes
from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server, open_server
from replayer.steps.sessions import step as sessions
from replayer.steps.sessions.spec import Spec
from replayer.tables.pgio import TableSet
from replayer.watch.histogram import Latencies
from tests.command import Replayer
from tests.fixture_types import Surroundings
from tests.halting import go_on, halt
from tests.hooked import Hooks, hooked
from tests.known import known
from tests.performed import performed
from tests.ready_made import copy, ready_data
from tests.waiting import wait_until

TABLES = TableSet(2, 2048, 1)
EVERY_KIND = WeightedMix(
    point=50, range=20, update=20, insert=8, scan=2, work_unit=16, hot="20%/80%"
)
LONG = 3600.0
"""Seconds of a window that ends before, and a patience that never ends."""
TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = 'replayer session 2'"
)


class Measure(Protocol):
    """Measures a level: keys of Asked, and what is done at its edges."""

    def __call__(
        self, *, begin: Hooks | None = None, end: Hooks | None = None, **keys: Any
    ) -> LevelResult:
        """Return what it came to."""


@pytest.fixture
def loaded(context: Context, database: Database) -> Measure:
    """Return a function that measures a level on the shared server's tables."""
    dataset.provide_tables(TABLES, context)

    def measure(
        *, begin: Hooks | None = None, end: Hooks | None = None, **keys: Any
    ) -> LevelResult:
        short = {"sessions": 4, "seconds": 1.0, "mix": WeightedMix(point=1), "patience": LONG}
        asked = LevelRequest(**{"tables": TABLES, **short, **keys})
        return measure_level(asked, hooked(context, begin=begin, end=end), database)

    return measure


def within_the_window(level: LevelResult, begun: int) -> bool:
    """Tell whether all that were begun were answered within it, but those under way at its end.

    Under way are at most those that begin while the slowest is answered: of Poisson's arrivals
    their mean and, but for once in 30,000 times, four standard deviations.
    """
    answered = round(level.completed * level.seconds)
    mean = level.offered * level.response.percentile_ns(100) / 1e9
    return 0 <= begun - answered <= 1 + mean + 4 * math.sqrt(mean)


def longer(times: Latencies, seconds: float) -> int:
    """Return how many took longer."""
    return sum(count for span, count in times.counts().items() if span > seconds * 1e9)


def tables_there(database: Database) -> set[str]:
    """Return the names of all tables of the method."""
    return {row["name"] for row in database.execute(VerbName("slob/tables"))}


def test_a_closed_loop_keeps_every_session_busy(loaded: Measure) -> None:
    """Each has one statement under way all the time, and Little's law holds."""
    level = loaded()
    answered = round(level.completed * level.seconds)
    done = level.service.operations

    assert level.sustained
    assert sum(level.counts.values()) == answered
    assert level.in_flight == pytest.approx(4)
    # All the time, and until the answer of those that are under way at the window's end.
    assert level.service.total_ns / 1e9 >= 4 * level.seconds
    assert 0 <= done - answered <= 4
    longest = level.service.most_ns / 1e9
    assert level.little is not None
    assert 1 - 4 / done <= level.little <= 1 + longest / level.seconds
    # An index's pages and the row's: at least three for each.
    assert level.activity.hits + level.activity.reads >= 3 * done
    assert level.use.client is not None
    assert level.use.server is not None
    assert 0 < level.use.client < level.use.processors
    assert level.use.server > 0


@pytest.mark.parametrize("arrivals", ["poisson", "uniform"])
def test_every_statement_of_a_rate_is_sent_and_answered(loaded: Measure, arrivals: str) -> None:
    """As many are begun and answered as the rate says, all of them on time or late."""
    level = loaded(rate=500, arrivals=arrivals)

    assert level.offered == level.begun == 500
    assert within_the_window(level, begun=500)
    assert level.response.operations == level.service.operations == 500
    assert level.response.total_ns >= level.service.total_ns
    assert sum(lag.begun for lag in level.lag) == 500
    assert sum(level.answers) == 500


@pytest.mark.slow
def test_the_same_seed_sends_the_same_statements(loaded: Measure) -> None:
    """A level can be repeated statement by statement, whenever they are answered."""
    one, same, other = (
        loaded(rate=1200, seconds=0.25, mix=EVERY_KIND, seed=seed).service_by_kind
        for seed in (5, 5, 6)
    )
    counts = [
        {kind: seen.operations for kind, seen in kinds.items()} for kinds in (one, same, other)
    ]

    assert counts[0] == counts[1]
    assert counts[0] != counts[2]


@pytest.mark.slow
def test_clients_that_look_less_often_lose_nothing(loaded: Measure) -> None:
    """What is due or answered is seen up to two looks late, which is in the times."""
    # A session is free for each that becomes due, or looks would come earlier.
    level = loaded(rate=40, sessions=41, resolution=0.05)

    assert level.begun == level.response.operations == 40
    assert level.service.least_ns >= 50e6


@pytest.mark.quiet
def test_clients_that_look_less_often_need_less_cpu(loaded: Measure) -> None:
    """With 2 ms between two looks they need at most 80 % of it, and keep the rate."""
    at_once, later = (
        loaded(rate=2000, seconds=2.0, sessions=16, resolution=seconds) for seconds in (0, 0.002)
    )

    for level in (at_once, later):
        assert level.sustained, level.reason
        assert within_the_window(level, begun=4000)
    assert later.use.client < 0.8 * at_once.use.client
    assert later.response.percentile_ns(50) > at_once.response.percentile_ns(50)


@contextlib.contextmanager
def locked(context: Context, window: str) -> Iterator[Hooks]:
    """Yield hooks that lock the tables of a level from before its window to its end."""
    with contextlib.ExitStack() as held:

        def lock() -> None:
            holder = held.enter_context(context.database())
            holder.query("BEGIN")
            holder.query(f"LOCK TABLE {', '.join(TABLES.names)}")

        # The end of a session ends its transaction.
        yield {"connect": lock, window: held.close}


def test_a_stall_is_in_the_response_time_of_all_who_came_meanwhile(
    loaded: Measure, context: Context
) -> None:
    """The server answers nothing in a window of a second: it is in all response times.

    The service time has it for those alone that were under way.  The backlog only grows, and is run
    after the window: nothing is skipped.
    """
    with locked(context, "load") as ends:
        level = loaded(rate=300, arrivals="uniform", sample_seconds=0.05, end=ends)

    assert not level.sustained
    assert "the backlog only grew" in level.reason
    assert "given up" not in level.reason
    assert level.completed == 0
    assert level.begun == level.offered == 300
    assert level.response.operations == sum(level.answers) == 300
    assert level.answers[0] == 0
    # Of those that came in the first half all had to wait for longer than the second.
    assert longer(level.response, 0.499) >= 150
    assert longer(level.service, 0.499) < longer(level.response, 0.499)
    assert max(lag.longest for lag in level.lag) > 0.9
    # All four sessions were seen to wait for the lock.
    assert level.waits.keys() >= {"Lock:relation"}
    assert max(moment.get("Lock:relation", 0) for moment in level.moments) == 4
    assert level.lock_waiting > 0


@pytest.mark.quiet
def test_a_stall_of_a_second_in_a_minute_is_a_p99_of_four_tenths(
    loaded: Measure, server: Server
) -> None:
    """With the server stopped for 1 s of 60 at 500/s the p99 of the response is near 0.40 s."""
    lasted: list[float] = []

    def stop() -> None:
        time.sleep(20)
        pids = server.pids()
        begin = time.monotonic()
        halt(pids)
        time.sleep(1)
        go_on(pids)
        lasted.append(time.monotonic() - begin)

    thread = threading.Thread(target=stop)
    level = loaded(rate=500, seconds=60.0, begin={"load": thread.start})
    thread.join()
    # Whoever waits for the disk is halted when it has answered.
    (stall,) = lasted
    # Of all that arrive a share of (stall - x) / seconds has to wait for longer than x, if all who
    # came meanwhile are answered at once; of (stall - x) / (1 - u) / seconds if they are answered
    # one after the other, by a server that is busy for a share u of its time without a stall.
    expected, busy = stall - 0.01 * 60, stall - 0.01 * 60 * (1 - 0.2)

    assert level.sustained, level.reason
    assert within_the_window(level, begun=30_000)
    assert 0.9 * expected < level.response.percentile_ns(99) / 1e9 < 1.08 * busy
    assert level.service.percentile_ns(99) / 1e9 < expected / 10
    assert max(lag.longest for lag in level.lag) == pytest.approx(stall, rel=0.15)


def test_a_rate_that_cannot_be_had_is_given_up(loaded: Measure) -> None:
    """A backlog that only grows is told, with how far behind it was, and what was given up."""
    # Of tables of which every statement reads half no server answers so many.
    mix = WeightedMix(range=1, work_unit=1024)
    level = loaded(sessions=2, mix=mix, rate=100_000, patience=0.2)

    assert not level.sustained
    assert "the backlog only grew" in level.reason
    assert "were given up" in level.reason
    # A statement may have waited at every moment.
    assert float(re.findall(r"from second (\S+) on", level.reason)[0]) >= 0
    assert level.begun < level.offered == 100_000


def test_every_kind_of_statement_does_what_it_says(loaded: Measure, database: Database) -> None:
    """Reads, updates, inserts and scans at once, in their proportions, counted by the server."""
    before = database.query("SELECT sum(n_tup_upd) AS n FROM pg_stat_user_tables")[0]["n"]
    level = loaded(rate=600, mix=EVERY_KIND, sessions=6)
    after = database.query("SELECT sum(n_tup_upd) AS n FROM pg_stat_user_tables")[0]["n"]
    done = {kind: seen.operations for kind, seen in level.service_by_kind.items()}
    rows = sum(
        int(row["sum"])
        for name in TABLES.names
        for row in database.query(f"SELECT sum(scratch) AS sum FROM {name}")
    )

    assert sum(done.values()) == 600
    for kind, share in EVERY_KIND.shares.items():
        assert done[kind] / 600 == pytest.approx(share, abs=0.05)
    assert after - before == done["update"]
    assert known(level.activity.commits) >= 600
    assert known(level.activity.wal_bytes) > 100 * (done["update"] + done["insert"])
    assert known(level.activity.wal_flushes) > 0
    # A scan reads all 2,048 blocks of a table.
    assert level.activity.hits + level.activity.reads > 2048 * done["scan"]
    assert rows > 0
    assert tables_there(database) == set(TABLES.names)


def test_inserts_are_committed_row_by_row_and_removed(
    loaded: Measure, context: Context, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table for them is there while they are made, and not when they were."""
    seen: list[Mapping[str, Any]] = []
    place = dataset.place_for_inserts

    @contextlib.contextmanager
    def looked_at(within: Database) -> Iterator[None]:
        with place(within):
            yield
            with context.database() as other:
                rows = (
                    "SELECT count(*) AS n, count(DISTINCT mykey) AS keys, "
                    "count(DISTINCT xmin::text) AS commits, "
                    "max(length(filler)) AS longest FROM pgio0"
                )
                seen.extend(other.query(rows))

    monkeypatch.setattr(levels, "place_for_inserts", looked_at)
    level = loaded(mix=WeightedMix(insert=1, insert_bytes=77), rate=500)

    assert level.service_by_kind["insert"].operations == 500
    assert within_the_window(level, begun=500)
    assert seen == [{"n": 500, "keys": 500, "commits": 500, "longest": 77}]
    assert tables_there(database) == set(TABLES.names)


def test_the_table_of_inserts_of_a_killed_run_is_removed(
    loaded: Measure, context: Context, database: Database
) -> None:
    """Whoever provides tables next finds what was left, and drops it."""
    del loaded
    left = dataset.place_for_inserts(database)
    left.__enter__()
    assert "pgio0" in tables_there(database)
    dataset.provide_tables(TABLES, context)

    assert tables_there(database) == set(TABLES.names)


@pytest.mark.slow
def test_hot_rows_are_found_in_the_buffers(loaded: Measure, context: Context) -> None:
    """With buffers for a quarter of the rows, most accesses to a tenth of them are hits."""
    small = {"shared_buffers": "4MB"}
    ratios = []
    with context.server.settings(small), context.database() as database:
        for hot in ("", "5%/95%"):
            asked = LevelRequest(
                sessions=2, seconds=1.0, mix=WeightedMix(point=1, hot=hot), tables=TABLES
            )
            measure_level(asked, context, database)
            ratios.append(measure_level(asked, context, database).hit_ratio)
    del loaded

    plain, hot_rows = ratios
    assert plain is not None
    assert hot_rows is not None
    assert plain < 0.9
    assert hot_rows > plain + 0.05


@pytest.mark.quiet
def test_a_statement_burns_what_it_costs_elsewhere(
    loaded: Measure, context: Context, database: Database
) -> None:
    """The CPU of the server for each statement is the one asked for, measured over the window."""
    mix = WeightedMix(point=3, range=1, update=1, work_unit=8, cpu=0.003)
    asked = LevelRequest(sessions=2, seconds=3.0, rate=100, mix=mix, tables=TABLES)
    costs = []
    # A virtual machine's processors may change their speed between what is calibrated and what is
    # measured: once of three times it has to be right.
    for _ in range(3):
        found = cpu_burn.calibrate(asked, context, database)
        level = loaded(sessions=2, seconds=3.0, rate=100, mix=mix, burn=found.units)
        assert found.bare_seconds is not None
        assert found.bare_seconds < 0.001
        assert level.sustained, level.reason
        assert level.use.server is not None
        costs.append(level.use.server * level.use.seconds / sum(level.counts.values()))
        if costs[-1] == pytest.approx(0.003, rel=0.15):
            return
    pytest.fail(f"3 ms were asked for, and a statement cost {costs} s")


@pytest.mark.quiet
def test_a_statement_of_many_sessions_at_a_rate_costs_what_is_wanted(
    loaded: Measure, context: Context, database: Database
) -> None:
    """Within 5 %, where each of 32 sessions is woken up for it: one hot session costs far less."""
    mix = WeightedMix(point=1, cpu=400e-6)
    asked = LevelRequest(sessions=32, seconds=4.0, rate=500, mix=mix, tables=TABLES)
    found = cpu_burn.calibrate(asked, context, database)
    hot = loaded(sessions=1, seconds=1.0, mix=mix, burn=found.units)
    wanted, got = found.wanted_seconds, known(found.got_seconds)

    assert got == pytest.approx(wanted, rel=0.05)
    assert cost(hot) < 0.8 * wanted
    # Once of three times: processors of a virtual machine change their speed.
    again = (loaded(sessions=32, seconds=4.0, rate=500, mix=mix, burn=found.units, seed=n)
              for n in range(3))  # fmt: skip
    assert any(cost(level) == pytest.approx(wanted, rel=0.1) for level in again)


@pytest.mark.slow
def test_what_a_statement_costs_is_printed_beside_what_is_wanted(
    loaded: Measure, context: Context, database: Database
) -> None:
    """At the rate at which the source was measured; without one where that is not sustained."""
    del loaded
    mix = WeightedMix(point=1, cpu=0.002, cpu_rate=50)
    found = cpu_burn.calibrate(
        LevelRequest(sessions=4, seconds=1.0, rate=100, mix=mix, tables=TABLES), context, database
    )
    assert found.rate == 50
    assert known(found.got_seconds) > known(found.bare_seconds)
    assert re.match(r"CPU of a statement at 50/s: wanted 2\.00 ms, got .* are its own", found.words)

    never = WeightedMix(point=1, cpu=0.002, cpu_rate=60_000)
    asked = LevelRequest(sessions=4, seconds=1.0, rate=100, mix=never, tables=TABLES)
    saturated = cpu_burn.calibrate(asked, context, database)
    assert saturated.rate is None
    assert re.match(r"CPU of a statement: wanted 2\.00 ms, got ", saturated.words)

    short = WeightedMix(point=1, cpu=0.0004, cpu_rate=60_000)
    halved = cpu_burn.calibrate(replace(asked, mix=short), context, database)
    assert known(halved.rate) < 60_000


@pytest.mark.slow
def test_what_is_a_statements_own_is_measured_as_what_it_burns(
    loaded: Measure, context: Context, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rate that it keeps only without burning: both are measured without a rate in the end."""
    del loaded
    levels_: list[LevelResult] = []

    def measured(*words: Any) -> LevelResult:
        levels_.append(measure_level(*words))
        return levels_[-1]

    monkeypatch.setattr(cpu_burn, "measure_level", measured)
    mix = WeightedMix(point=1, cpu=0.05, cpu_rate=40 * (os.cpu_count() or 1))
    asked = LevelRequest(sessions=4, seconds=1.0, rate=1, mix=mix, tables=TABLES)
    found = cpu_burn.calibrate(asked, context, database)

    own = [one for one in levels_ if not one.asked.burn and one.asked.sessions == 4]
    assert own[0].asked.rate
    assert own[-1].asked.rate is None is found.rate
    assert found.bare_seconds == cost(own[-1])


def cost(level: LevelResult) -> float:
    """Return the CPU seconds of the server for each statement of a level."""
    return known(level.use.server) * level.use.seconds / sum(level.counts.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scan", "compute"])
def test_a_statement_of_any_kind_burns(loaded: Measure, kind: str) -> None:
    """A scan, which has no row of its own to burn on, and one that reads nothing burn as well."""
    mix = WeightedMix.model_validate({kind: 1})
    bare, burning = (loaded(sessions=1, mix=mix, burn=units) for units in (0.0, 5000.0))
    costs = [(level.use.server or 0) / level.completed for level in (bare, burning)]
    assert set(burning.response_by_kind) == {kind}
    # 5,000 times 4 KiB of MD5 are some 40 ms, the scan of 16 MiB in memory is a few.
    assert costs[1] > 3 * costs[0]
    assert costs[1] > 0


def test_a_killed_backend_ends_the_level_in_one_sentence(loaded: Measure, context: Context) -> None:
    """A session that the server ended is told at once, with what the server said of it."""

    def kill() -> None:
        with context.database() as other:
            other.query(TERMINATE)

    with pytest.raises(ReplayerError, match=r"the load lost the server .*terminat") as caught:
        loaded(rate=200, seconds=LONG, begin={"load": kill})

    assert "\n" not in str(caught.value)


def test_a_refused_statement_ends_the_level_in_one_sentence(
    loaded: Measure, context: Context
) -> None:
    """The server answers the session: it has refused its statement, and is not lost."""

    def revoke() -> None:
        with context.database() as other:
            other.query("ALTER TABLE pgio1 ADD CONSTRAINT full_now CHECK (mykey < 0) NOT VALID")

    refused = r"the server refused a statement of the load .*violates check constraint"
    mix = WeightedMix.model_validate({"update": 1})
    try:
        with pytest.raises(ReplayerError, match=refused):
            loaded(rate=200, seconds=LONG, mix=mix, begin={"load": revoke})
    finally:
        with context.database() as other:
            other.query("ALTER TABLE pgio1 DROP CONSTRAINT IF EXISTS full_now")


@pytest.mark.slow
def test_a_killed_server_ends_the_level_in_one_sentence(
    server_home: Path, surroundings: Surroundings
) -> None:
    """Kill -9 of the postmaster in the middle is told; the next start removes what was made."""
    data = copy(ready_data("postgres"), server_home / "killed-load")
    with open_server(engines.load("postgres"), data_dir=data) as server:
        server.start()
        main = server.pids()[0]
        context = surroundings(server)
        dataset.provide_tables(TABLES, context)
        asked = LevelRequest(sessions=4, seconds=LONG, rate=300, mix=EVERY_KIND, tables=TABLES)
        killing = hooked(context, begin={"load": lambda: os.kill(main, signal.SIGKILL)})
        with (
            context.database() as database,
            pytest.raises(ReplayerError, match=r"lost the server|refused|said|closed") as gone,
        ):
            measure_level(asked, killing, database)
        # Until init has reaped it, its number is taken.
        wait_until(lambda: not Path(f"/proc/{main}").exists())
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
    "SELECT $1": "",
    "SELECT $1 WHERE $1 < 0": "",
    "SELECT $1, repeat('x', 300000)": "",
    "SELECT generate_series(1, $1 + 20000)": "",
    "SELECT pg_temp.again($1)": "40P01",
}


def answer(session: WireSession, place: int, number: int = 5) -> str:
    """Send a statement and return the SQLSTATE of its answer."""
    session.send_prepared(place, session.packing.prefix + number.to_bytes(8, "big"))
    await_answer(session)
    return session.sqlstate


@pytest.mark.parametrize("kind", [PostgresConnection, EncryptedPostgresConnection])
def test_answers_of_every_shape_are_taken_to_their_end(
    server: Server, database: Database, kind: type[PostgresConnection]
) -> None:
    """Over libpq and by our own messages: one row, none, long ones, many, refusals, and the end."""
    server.start()
    connection = driver.connect(database.connector(), AGAIN)
    with contextlib.closing(kind(connection.pgconn, connection.close)) as session:
        texts = [*SPOKEN, "SELECT 1 / ($1 - 5)"]
        session.prepare([DriverStatement("point", text, ("first",), 1, 1, 0) for text in texts])
        for _ in range(2):
            ends = [answer(session, place) for place in range(len(SPOKEN))]
            assert ends == list(SPOKEN.values())
        with pytest.raises(ConnectionGone, match=r"the database reported: .*division by zero"):
            answer(session, len(SPOKEN))
    connection = driver.connect(database.connector())
    with contextlib.closing(kind(connection.pgconn, connection.close)) as session:
        session.prepare([DriverStatement("point", "SELECT $1", ("first",), 1, 1, 0)])
        database.query(f"SELECT pg_terminate_backend({session.session})")
        select.select([session], [], [])
        with pytest.raises(
            ConnectionGone, match="terminating connection due to administrator command"
        ):
            answer(session, 0)


def test_an_engine_without_such_statements_says_so() -> None:
    """It is one sentence, and the other steps go on."""
    asked = LevelRequest(sessions=1, seconds=1, mix=WeightedMix(point=1), tables=TABLES)
    with pytest.raises(Skip, match="ColumnStore: its tables have no index"):
        check(asked, engines.load("columnstore"))
    with pytest.raises(Skip, match=r"no mix/session\.sql"):
        check(asked, engines.load("singlestore"))


def test_more_statements_than_a_session_prepares_are_refused() -> None:
    """Each table has its own, and each session all of them."""
    many = LevelRequest(sessions=1, seconds=1, mix=EVERY_KIND, tables=TableSet(200, 100, 1))
    with pytest.raises(Skip, match="use fewer tables"):
        check(many, engines.load("postgres"))


# The step


def values_of(outcome: Outcome) -> dict[str, float]:
    """Return metric -> value."""
    return {m.metric: m.value for m in outcome.measurements}


def perform(context: Context, **keys: object) -> Outcome:
    """Perform a step of sessions on the shared server."""
    small = {"num_schemas": 2, "num_threads": 2, "scale": 2048, "run_time": "1s"}
    spec = Spec.model_validate(
        {"step": "sessions", "name": "sessions", "memory": "cached", **small, **keys}
    )
    return performed(sessions, spec, context)


def test_a_step_at_a_rate_has_both_times_and_the_lag(context: Context) -> None:
    """Response and service time are two histograms, lag is a series, and nothing is missing."""
    # More sessions than statements that a slow disk holds up: the rate is sustained.
    outcome = perform(
        context,
        rate=50,
        num_threads=16,
        run_time="2s",
        mix="point=8 update=1 insert=1 hit_ratio=0.5",
    )
    values = values_of(outcome)

    assert outcome.facts["sessions.sustained"] is True
    assert values["sessions.offered"] == values["sessions.begun"] == 50
    assert 0 < values["sessions.completed"] <= 50
    assert values["sessions.response.p50"] >= values["sessions.service.p50"] > 0
    assert {"response", "service", "point", "update", "insert"} <= set(outcome.latency)
    assert outcome.latency["response"].operations == outcome.latency["service"].operations == 100
    assert 0 <= values["sessions.hit_ratio"] <= 100
    assert values["sessions.commits"] >= 50
    assert outcome.writes
    assert outcome.series
    assert len(outcome.series.columns["sessions.lag"]) == len(outcome.series.seconds)
    assert any("50.00% were asked for" in note for note in outcome.notes)
    assert any("not tested by this mix: joins" in note for note in outcome.notes)
    assert [row["kind"] for row in outcome.tables["kinds"]] == ["point", "update", "insert"]


@pytest.mark.slow
def test_a_rate_without_a_mix_sends_the_steps_own_statements(context: Context) -> None:
    """SELECTs of a work unit, and UPDATEs in their share."""
    outcome = perform(context, rate=200, work_unit=32, update_pct=20, update_work_unit=2)

    assert [row["kind"] for row in outcome.tables["kinds"]] == ["range", "update"]
    assert values_of(outcome)["sessions.begun"] == 200


def test_a_mix_without_a_rate_is_a_closed_loop(context: Context) -> None:
    """It is as fast as it is answered: the number of statements is what was found out."""
    outcome = perform(context, mix="point=9 range=1 work_unit=16")
    values = values_of(outcome)

    assert values["sessions.completed"] > 0
    assert "sessions.offered" not in values
    assert "response" not in outcome.latency
    assert values["sessions.in_flight"] == pytest.approx(4)


@pytest.mark.slow
def test_no_percentile_is_told_of_a_rate_that_is_not_sustained(context: Context) -> None:
    """What would grow for as long as one watches is not a number."""
    perform(context, rate=10, run_time="1s", mix="point=1")
    with locked(context, "sessions") as ends:
        outcome = perform(hooked(context, end=ends), rate=200, mix="point=1")
    metrics = values_of(outcome)

    assert outcome.facts["sessions.sustained"] is False
    assert not any(".p" in metric or "lag" in metric for metric in metrics)
    assert not outcome.latency
    assert any(note.startswith("not sustained: the backlog") for note in outcome.notes)


SESSIONS = 16
WORKLOAD = f"""
# A test.
description = "a test"
[[step]]
step = "sessions"
name = "rate"
num_schemas = 1
num_threads = {SESSIONS}
scale = 1024
memory = "cached"
run_time = "{{seconds}}s"
rate = 50
mix = "point=80 update=10 insert=10"
"""


@pytest.fixture
def running(
    replayer: Replayer, tmp_path: Path, made_home: Path
) -> Callable[[int], subprocess.Popen[str]]:
    """Return a function that starts `replayer run` of a load in a home of its own."""
    del made_home

    def start(seconds: int) -> subprocess.Popen[str]:
        workload = tmp_path / "load.toml"
        workload.write_text(WORKLOAD.format(seconds=seconds))
        return replayer.start("run", workload, "--verbose", "--results", tmp_path / "r")

    return start


@pytest.mark.slow
def test_the_report_says_whether_the_rate_was_sustained(
    running: Callable[[int], subprocess.Popen[str]],
) -> None:
    """In one line, with the mix below it, and both times."""
    report, errors = running(2).communicate()

    assert "50/s asked, 50/s begun" in report, errors
    assert "answered in the window: sustained" in report
    assert "response" in report
    assert "service p50" in report
    assert re.search(r"^  lag  .* [mµ]?s to .* [mµ]?s$", report, re.MULTILINE)


def sessions_of(home: Path) -> int:
    """Return how many sessions the server of a home has."""
    mains = [pid for pid in processes.every() if str(home) in processes.arguments(pid)]
    family = {pid for main in mains for pid in processes.family(main)}
    return sum("[local]" in processes.arguments(pid) for pid in family)


@pytest.mark.slow
def test_ctrl_c_in_the_middle_leaves_nothing(
    running: Callable[[int], subprocess.Popen[str]], made_home: Path
) -> None:
    """It ends at once, says so in a sentence, and neither processes nor notes are left."""
    command = running(3600)
    while sessions_of(made_home) < SESSIONS and command.poll() is None:
        time.sleep(0.1)
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate()

    assert command.returncode == 130, errors
    assert "Traceback" not in errors


def test_a_setting_of_the_user_is_not_replaced_by_a_default_of_the_steps(context: Context) -> None:
    """Two values of `io_method` were compared of which a load used neither."""
    few = partial(dataset.session_settings, memory="cached", sessions=4, buffers=None)
    theirs = context.workload.model_copy(update={"settings": {"track_io_timing": "on"}})

    assert few(context)["track_io_timing"] == "off"
    assert "track_io_timing" not in few(replace(context, workload=theirs))
