"""Engines that are libraries: the same rows, cold that the device proves, an end with the run."""

import contextlib
import math
import os
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replayer.conditions import temperature
from replayer.engines import driver
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.engines.engine import Engine
from replayer.engines.verbs import Verb
from replayer.engines.wire_session import ConnectionGone, DriverStatement, await_answer
from replayer.errors import ReplayerError, Skip
from replayer.machine import processes
from replayer.model import Cold, Outcome, ReadOrigin, Temperature
from replayer.run import recovery
from replayer.run.checks import cold_count
from replayer.run.checks.verb_trials import VerbTrials
from replayer.run.context import Context
from replayer.servers import private
from replayer.servers.open import open_server
from replayer.servers.protocol import Server
from replayer.steps.build import step as build
from replayer.steps.build.spec import Spec as BuildSpec
from replayer.steps.flush import step as flush
from replayer.steps.ranges import step as ranges
from replayer.steps.ranges.spec import Spec as RangesSpec
from replayer.steps.scan import step as scan
from replayer.steps.walk import step as walk
from replayer.steps.walk.spec import Spec as WalkSpec
from replayer.tables import persons, relations
from tests.expected_rows import expected_rows
from tests.fixture_types import Holder, Surroundings
from tests.known import known
from tests.performed import performed
from tests.repeated import repeat_until
from tests.slow_case import slow
from tests.waiting import wait_until

ENGINES = ("duckdb", "clickhouse")
ROWS = 98_304


@pytest.fixture(scope="module", params=ENGINES)
def built(request: pytest.FixtureRequest, server_home: Path) -> Iterator[Server]:
    """Return a server of a library, running."""
    name = str(request.param)
    pytest.importorskip({"clickhouse": "chdb"}.get(name, name))
    with open_server(engines.load(name), data_dir=server_home / f"columns-{name}") as server:
        server.start()
        yield server


@pytest.fixture
def server(built: Server) -> Server:
    """Return it, running."""
    built.start()
    return built


@pytest.fixture
def table(context: Context) -> Outcome:
    """Build and flush the table unless it is there; return what the flush found."""
    keys = {"step": "build", "name": "build", "rows": ROWS, "rebuild": False}
    performed(build, BuildSpec.model_validate(keys), context)
    return performed(flush, flush.Spec(step="flush", name="flush"), context)


def scanned(context: Context, cold: str = "cold") -> Outcome:
    """Run a scan step."""
    keys = {"step": "scan", "name": "scan", "cold": cold}
    return performed(scan, scan.Spec.model_validate(keys), context)


def test_the_rows_are_those_of_every_engine(table: Outcome, context: Context) -> None:
    """All 98,304, as plain Python makes them; and the flush left no buffer and no page dirty."""
    with context.database() as database:
        rows = sorted(
            (row["id"], row["lastname"])
            for row in database.query("SELECT id, lastname FROM persons1")
        )
    assert rows == sorted(expected_rows(14))
    assert table.facts["proven"] is True


@pytest.mark.slow
def test_a_table_is_built_again_and_a_build_goes_on(table: Outcome, context: Context) -> None:
    """Over the table that is there; and after a kill between a doubling's rows and its mark."""
    keys = {"step": "build", "name": "build", "rows": 6144}
    performed(build, BuildSpec.model_validate(keys), context)
    with context.database() as database:
        assert len(database.query("SELECT id FROM persons1")) == 6144
        if context.engine.name == "clickhouse":  # the other's rows and mark are one transaction
            database.query("ALTER TABLE persons1_doublings UPDATE rows = NULL WHERE doubling = 10")
            performed(build, BuildSpec.model_validate(keys), context)
        found = database.query("SELECT id, lastname FROM persons1")
        rows = sorted((row["id"], row["lastname"]) for row in found)
        assert rows == sorted(expected_rows(10))
        persons.drop(database, "columnstore")
        assert persons.state(database) is None


@pytest.mark.slow
@pytest.mark.alone  # other tests drop the page cache, and the second scan is to be hot
def test_cold_is_proven_by_what_its_process_read_of_the_device(
    table: Outcome, context: Context
) -> None:
    """The process had the bytes from the device; a hot scan of the same table had none."""
    cold = known(scanned(context).cold)
    hot = scanned(context, "hot")

    assert (cold.got, cold.why) == (Temperature.COLD, "")
    assert known(cold.own_bytes) >= 0.5 * known(cold.stored_bytes)
    assert known(hot.cold).got is Temperature.HOT
    assert not known(hot.cold).own_bytes


def test_a_process_left_open_is_not_called_cold(
    table: Outcome, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: the stop is a lie; the page cache is empty, but the process may hold the table.

    DuckDB does.  ClickHouse holds marks only: its scan is cold if it had all from the device.
    """
    with context.database() as database:
        database.row(scan._STATEMENTS["full count"])
    monkeypatch.setattr(private.PrivateServer, "stop", lambda _: None)

    found = known(scanned(context).cold)

    if found.got is Temperature.COLD:
        assert context.engine.name == "clickhouse"
        assert known(found.own_bytes) >= known(found.stored_bytes) / 2
    else:
        assert found.why


def test_a_table_read_just_before_is_not_called_cold(
    table: Outcome, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: between the proof and the clock somebody reads all of the files."""
    after = scan._after_start

    def meddled(cold: Any, files: list[Path], database: Database) -> Any:
        found = after(cold, files, database)
        temperature.warm(files)
        return found

    monkeypatch.setattr(scan, "_after_start", meddled)

    def seen() -> Cold:
        found = known(scanned(context).cold)
        # Another test may have dropped the page cache after that; then the device was read.
        if found.got is Temperature.COLD:
            assert known(found.own_bytes) >= known(found.stored_bytes)
        return found

    lukewarm = repeat_until(seen, lambda found: found.got is not Temperature.COLD)
    assert lukewarm.got is not Temperature.COLD


@pytest.mark.slow
def test_a_table_dropped_just_before_is_not_called_hot(
    table: Outcome, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: between the proof and the clock somebody drops the page cache.

    DuckDB has the table in its own buffers, if it was read before, and needs no device.
    """
    after = scan._after_start

    def meddled(cold: Any, files: list[Path], database: Database) -> Any:
        found = after(cold, files, database)
        temperature.forget(files)
        return found

    context.server.stop()
    monkeypatch.setattr(scan, "_after_start", meddled)

    found = known(scanned(context, "hot").cold)

    assert found.got is Temperature.LUKEWARM
    assert known(found.own_bytes) > 0
    assert "from the device" in found.why


def test_all_threads_walk_its_files_cold(table: Outcome, context: Context) -> None:
    """Every byte of the files is read, from the device."""
    keys = {"step": "walk", "name": "walk", "threads": 8}
    outcome = performed(walk, WalkSpec.model_validate(keys), context)
    cold = known(outcome.cold)

    assert cold.got is Temperature.COLD
    assert sum(one.value for one in outcome.measurements if one.metric == "walk.bytes") == (
        cold.file_bytes
    )


def test_a_statement_that_fails_is_one_sentence(server: Server) -> None:
    """Also after it, the session goes on; a client that is not a client harms no other."""
    with closing(Database(server.engine, server.start())) as database:
        with pytest.raises(ReplayerError, match=r"the database reported: .*nowhere") as raised:
            database.query("SELECT * FROM nowhere")
        assert "\n" not in str(raised.value)
        assert database.query("SELECT 1 AS one")[0]["one"] == 1
        connector = database.connector()
        for content in (b"", b"\0\0\0\x08", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64):
            with socket.socket(socket.AF_UNIX) as end, contextlib.suppress(OSError):
                end.connect(f"{connector.arguments['host']}/.s.PGSQL.5432")
                end.sendall(content)
                end.shutdown(socket.SHUT_WR)
                end.recv(1 << 12)
        with closing(driver.connect(connector)) as other, other.cursor() as cursor:
            cursor.execute("SELECT 2")
            assert cursor.fetchone() == (2,)
        assert database.query("SELECT 3 AS three")[0]["three"] == 3


def test_a_page_cache_dropped_in_a_cold_count_refutes_nothing(
    table: Outcome, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that the count read are gone when they are looked for: it is done again."""
    folder = known(context.server.data_directory())
    counts = []
    trials = VerbTrials(Database(context.engine, context.server.start()))
    attempt, files = trials.attempt, relations.files(trials.database, folder)

    def dropped(name: str, *rest: Any, **more: Any) -> Any:
        found = attempt(name, *rest, **more)
        if name == "table/count":
            counts.append(name)
            if len(counts) == 1:
                temperature.forget(files)
        return found

    monkeypatch.setattr(trials, "attempt", dropped)
    # A page cache that other tests empty looks as if the server went around it.
    monkeypatch.setattr(cold_count.ColdCount, "_goes_around", lambda _: False)
    read, *_ = cold_count.attempt(context.server, trials, folder, "")
    trials.database.close()

    assert read.proven, read.found
    assert len(counts) > 1


@pytest.mark.slow
def test_as_many_files_as_the_seeds_table_had(
    server_home: Path, surroundings: Surroundings
) -> None:
    """ClickHouse: each partition is one part after the flush, and 50,331,648 rows have 3,240 files.

    MemSQL's table had so many.  No merge of the table is under way after the flush.
    """
    pytest.importorskip("chdb")
    rows, most = 786_432, 50_331_648
    with open_server(engines.load("clickhouse"), data_dir=server_home / "files") as server:
        server.start()
        context = surroundings(server)
        keys = {"step": "build", "name": "build", "rows": rows}
        performed(build, BuildSpec.model_validate(keys), context)
        flushed = performed(flush, flush.Spec(step="flush", name="flush"), context)
        with context.database() as database:
            (parts,) = database.query(
                "SELECT toInt64(count()) AS parts, toInt64(uniqExact(partition)) AS partitions,"
                " toInt64(max(rows)) AS most,"
                " (SELECT toInt64(count()) FROM system.merges) AS merging FROM system.parts"
                " WHERE active AND database = 'replayer' AND table = 'persons1'"
            )

    assert (parts["parts"], parts["partitions"], parts["merging"]) == (3, 3, 0)
    files_of_a_part = int(str(flushed.facts["files"])) / 3
    assert math.ceil(most / parts["most"]) * files_of_a_part == pytest.approx(3_240, rel=0.01)


HOLDER = """
import sys
from pathlib import Path
from replayer.engines import engine
from replayer.servers.open import open_server
with open_server(engine.load(sys.argv[2]), data_dir=Path(sys.argv[1])) as server:
    server.start()
    print(server.pids()[0], flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("engine", ["duckdb", slow("clickhouse")])
def test_the_process_ends_with_its_run_even_when_that_is_killed(
    engine: str, own_home: Path, holder: Holder
) -> None:
    """Kill -9 of replayer: the process sees it and ends, and the next command clears the rest."""
    pytest.importorskip({"clickhouse": "chdb"}.get(engine, engine))
    other = holder(own_home / "data", engine, code=HOLDER)
    pid = int(other.said)
    user = processes.arguments(pid)
    assert "replayer.engines.inprocess" in user
    os.kill(other.pid, signal.SIGKILL)
    other.wait()

    wait_until(lambda: processes.ends(pid))
    recovery.give_back(lambda _: None)
    with open_server(engines.load(engine), data_dir=own_home / "data") as server:
        server.start()


def ranges_of(context: Context, **keys: object) -> Outcome:
    """Run two seconds of ranges."""
    own = {"step": "ranges", "name": "ranges", "run_time": "2s", "sessions": 4, **keys}
    return performed(ranges, RangesSpec.model_validate(own), context)


@pytest.mark.slow
@pytest.mark.alone  # other tests drop the page cache
def test_sessions_read_ranges_from_memory_or_from_the_device(
    table: Outcome, context: Context
) -> None:
    """The ledger and the process agree; DuckDB refuses a table that its memory would hold."""
    cached = ranges_of(context)
    values = {one.metric: one.value for one in cached.measurements}
    assert values["ranges.completed"] > 0
    assert known(cached.ledger).verdict in {ReadOrigin.BUFFERED, ReadOrigin.CACHED}
    assert values["ranges.path"] < values["ranges.service.p50"]
    assert any("DBAPI" in note for note in cached.notes)

    if context.engine.name == "duckdb":
        with pytest.raises(Skip, match="left to cache it"):
            ranges_of(context, reads="physical")
        return
    physical = ranges_of(context, reads="physical")
    assert known(physical.ledger).verdict is ReadOrigin.PHYSICAL
    assert known(known(physical.cold).own_bytes) > 0


def test_a_range_that_fails_is_named_by_its_file(
    table: Outcome, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sessions have statements without a name."""
    wrong = Verb("table/range", Path("range.sql"), "SELECT nothing FROM {{table}}")
    find = Engine.verb
    monkeypatch.setattr(
        Engine, "verb", lambda one, name: wrong if name == wrong.name else find(one, name)
    )

    with pytest.raises(ReplayerError, match=r"^table/range: the database reported: .*nothing"):
        ranges_of(context)


def test_a_session_by_the_drivers_cursor_reports_errors_and_ends(server: Server) -> None:
    """An error ends with one sentence; a statement under way ends with its session."""
    statements = [
        DriverStatement("range", text, names, 1.0, 1, 0.0)
        for text, names in (("SELECT %s + %s", ("first", "last")), ("SELECT nothing", ()))
    ]
    with closing(Database(server.engine, server.start())) as database:
        connector = database.connector()
    with closing(driver.connect_session(connector)) as session:
        session.prepare(statements)
        session.send_prepared(0, struct.pack("<2q", 1, 2))
        await_answer(session)
        assert not session.sqlstate
        session.send_prepared(1, b"")
        with pytest.raises(ConnectionGone, match="the database reported: "):
            await_answer(session)
        session.send_prepared(0, struct.pack("<2q", 3, 4))


def test_a_verb_without_its_one_row_is_named_by_its_file(server: Server) -> None:
    """No row, and two."""
    with closing(Database(server.engine, server.start())) as database:
        for rows, words in ((0, "no row"), (2, "2 rows")):
            text = f"SELECT 1 AS one FROM (SELECT 1 UNION ALL SELECT 1) AS t LIMIT {rows}"
            with pytest.raises(ReplayerError, match=rf"toy\.sql of .* answered with {words}"):
                database.row(Verb("toy", Path("toy.sql"), text))
