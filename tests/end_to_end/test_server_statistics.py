"""What a server's statistics counted in a window, held against what was done in it."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replayer.collectors import WindowRecording, statistics
from replayer.collectors.statistics import Statistics
from replayer.engines.connection import Database
from replayer.errors import ReplayerError
from replayer.machine.host import Host
from replayer.run import step_collectors
from replayer.servers.open import Server
from replayer.watch.active_collectors import Recordings
from tests.server_pool import ServerPool
from tests.waiting import wait_until

ROWS = 900
MAKE = {
    "postgres": "CREATE TABLE replayer.counted AS SELECT i, repeat('x', 100) AS t "
    f"FROM generate_series(1, {ROWS}) AS i",
    "mariadb": "CREATE TABLE counted AS SELECT seq AS i, REPEAT('x', 100) AS t "
    f"FROM seq_1_to_{ROWS}",
    "mysql": "CREATE TABLE counted AS WITH RECURSIVE s AS (SELECT 1 AS i UNION ALL SELECT i + 1 "
    f"FROM s WHERE i < {ROWS}) SELECT i, REPEAT('x', 100) AS t FROM s",
}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no answer come too late, however busy the machine is."""
    monkeypatch.setattr(statistics, "_END_SECONDS", 600.0)
    monkeypatch.setattr(step_collectors, "_AT_ONCE", 600.0)


class Window:
    """What the server's statistics see between `begin` and `end`."""

    def __init__(self, watched: Recordings) -> None:
        self._watched = watched
        self._statistics = watched._under_way["statistics"]
        self._marks: list[int] = []

    def begin(self) -> None:
        """Mark the begin; return when every view was asked."""
        self._marks = [self._mark()]
        after = self._mark()
        # It is due once all that was due before it is done.
        assert isinstance(self._statistics, Statistics)
        asked = self._statistics._said
        wait_until(lambda: after in asked)

    def end(self) -> tuple[WindowRecording | None, Mapping[str, str]]:
        """Mark the end; return what was seen, and by view why it was not."""
        self._marks.append(self._mark())
        self._watched.end()
        return self._watched.seen(*self._marks).get("statistics"), self._watched.failures

    def _mark(self) -> int:
        self._watched.mark(now := time.monotonic_ns())
        return now


@contextlib.contextmanager
def window(server: Server) -> Iterator[Window]:
    """Yield a window on a server that has begun."""
    with step_collectors.recordings(("statistics",), Host(), None, server) as watched:
        made = Window(watched)
        made.begin()
        yield made


def do(server: Server, statement: str) -> None:
    """Execute a statement in a session of its own, and wait until the server counts what it did.

    A session of PostgreSQL tells what it did at its end, before it leaves the list of sessions.
    """
    with closing(Database(server.engine, server.start())) as database:
        with closing(Database(server.engine, server.start())) as own:
            own.query(statement)
        if server.engine.name == "postgres":
            left = f"SELECT 1 FROM pg_stat_activity WHERE pid = {own.session}"
            wait_until(lambda: not database.query(left))
        if server.engine.name == "postgres" and server.version < 15:
            # By a process that collects it.
            time.sleep(1.5)


def seen_of(server: Server) -> tuple[WindowRecording | None, Mapping[str, str]]:
    """Return what was seen of a window in which a table was made, and why what was missing."""
    make = MAKE[server.engine.name]
    with window(server) as watched:
        do(server, make)
        seen = watched.end()
    do(server, f"DROP TABLE {make.split()[2]}")
    return seen


def rows_of(seen: WindowRecording | None, view: str) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a view."""
    assert seen is not None
    return seen.tables.get(f"statistics.{view}", ())


def test_the_log_and_the_pages_of_a_table_are_counted(server: Server) -> None:
    """A new table is in the log, and its pages were added to a file by who made it."""
    seen, missing = seen_of(server)

    (wal,) = rows_of(seen, "wal")
    assert wal["wal_bytes"] > 1000
    extended = [row for row in rows_of(seen, "io") if row["backend_type"] == "client backend"]
    assert sum(row.get("extend_bytes") or 0 for row in extended) > 100 * ROWS
    assert list(missing) == ["statistics.statements"]
    assert "pg_stat_statements" in missing["statistics.statements"]


def test_a_connection_that_was_lost_between_the_marks_loses_no_view(server: Server) -> None:
    """As where a step restarts the server for a cold cache: it is asked again by a new one."""
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    with window(server) as watched:
        with closing(Database(server.engine, server.start())) as database:
            assert database.query(others)
        do(server, "CREATE TABLE replayer.lost AS SELECT 1 AS i")
        seen, missing = watched.end()
    do(server, "DROP TABLE replayer.lost")

    assert rows_of(seen, "io")
    assert list(missing) == ["statistics.statements"]


@pytest.mark.parametrize("how", ["reset", "crash"])
def test_counters_that_were_set_back_in_the_window_are_no_differences(
    server: Server, how: str
) -> None:
    """Not even those that have grown beyond what they were before."""
    with window(server) as watched:
        if how == "reset":
            do(server, "SELECT pg_stat_reset_shared('io'), pg_stat_reset_shared('wal')")
        else:
            crash(server)
        seen, missing = watched.end()

    assert seen is None
    assert "set back in the window" in missing["statistics"]


def crash(server: Server) -> None:
    """Kill a process of the server, which begins anew then, and wait until it has."""
    killed = walwriter(server)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: walwriter(server) not in {0, killed})


def walwriter(server: Server) -> int:
    """Return the process id of what writes the log, 0 while there is none to be asked for."""
    statement = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
    with (
        contextlib.suppress(ReplayerError),
        closing(Database(server.engine, server.start())) as database,
    ):
        return int(database.query(statement)[0]["pid"])
    return 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "views"),
    [
        ("postgresql-13", set()), ("postgresql-14", {"wal"}), ("postgresql-16", {"wal", "io"}),
        ("postgresql-17", {"wal", "io"}),
    ],
)  # fmt: skip
def test_other_versions_have_other_views(
    other_server: Callable[[str], Path], name: str, views: set[str], server_pool: ServerPool
) -> None:
    """Before 16 there is no pg_stat_io, before 14 no pg_stat_wal; what is there moved."""
    seen, missing = seen_of(server_pool(bindir=other_server(name)))

    assert (set() if seen is None else {view[11:] for view in seen.tables}) == views
    assert any("pg_stat_statements" in why for why in missing.values())


def test_the_heaviest_statements_are_told(server_pool: ServerPool, postgres15: Path) -> None:
    """Where pg_stat_statements is loaded and made, each statement of the window has a row."""
    library = {"shared_preload_libraries": "pg_stat_statements"}
    server = server_pool(bindir=postgres15, settings=library)
    do(server, "CREATE EXTENSION pg_stat_statements SCHEMA replayer")
    seen, missing = seen_of(server)
    do(server, "DROP EXTENSION pg_stat_statements")

    statements = rows_of(seen, "statements")
    assert statements
    assert missing == {}
    assert all(row["calls"] >= 1 for row in statements)


@pytest.fixture
def mariadb(server_pool: ServerPool, mariadbd: Path) -> Server:
    """Return the private MariaDB."""
    return server_pool("mariadb", bindir=mariadbd.parent)


def test_mariadbs_status_counts_its_rows(mariadb: Server) -> None:
    """Its status variables moved by the rows of the table; its digests are switched off."""
    seen, missing = seen_of(mariadb)

    status = {row["name"]: row["value"] for row in rows_of(seen, "status")}
    assert status["handler_write"] >= ROWS
    assert status["com_create_table"] == 1
    assert "performance_schema" in missing["statistics.statements"]


def test_a_statement_of_two_schemas_is_counted_as_one(
    server_pool: ServerPool, mariadbd: Path
) -> None:
    """The server has a row of each, with the same digest: one row replaced the other."""
    counting = {"performance_schema": "ON"}
    server = server_pool("mariadb", bindir=mariadbd.parent, settings=counting)
    do(server, "CREATE OR REPLACE DATABASE replayer_other")
    with contextlib.ExitStack() as opened:
        here, there = (
            opened.enter_context(closing(Database(server.engine, server.start()))) for _ in range(2)
        )
        there.query("USE replayer_other")
        for database, many in ((there, 3), (here, 30)):
            for _ in range(many):
                database.query("SELECT 'counted' AS word")
        with window(server) as watched:
            for database, many in ((there, 5), (here, 2)):
                for _ in range(many):
                    database.query("SELECT 'counted' AS word")
            seen, _ = watched.end()
    do(server, "DROP DATABASE replayer_other")

    calls = [row["calls"] for row in rows_of(seen, "statements") if "`word`" in row["statement"]]
    assert calls == [7]


def test_a_status_of_mariadb_that_was_flushed_in_the_window_is_no_difference(
    mariadb: Server,
) -> None:
    """It sets some counters back and not others, and does not say which."""
    begun = "SHOW GLOBAL STATUS LIKE 'Uptime_since_flush_status'"
    late = True
    while late:
        with closing(Database(mariadb.engine, mariadb.start())) as database:
            # It is told in whole seconds, so that a shorter life than these could not be known.
            wait_until(lambda: int(database.query(begun)[0]["Value"]) >= 5)
        with window(mariadb) as watched:
            do(mariadb, "FLUSH STATUS")
            flushed = time.monotonic()
            seen, missing = watched.end()
            # Nor one that is asked for when it is as long again.
            late = time.monotonic() - flushed > 2

    assert seen is None
    assert "set back in the window" in missing["statistics"]


@pytest.mark.slow
def test_mysqls_digests_tell_the_statement(
    other_server: Callable[[str], Path], server_pool: ServerPool
) -> None:
    """performance_schema is on by default, and the table's statement is the one that took time."""
    seen, missing = seen_of(server_pool("mysql", bindir=other_server("mysql-9")))

    first = rows_of(seen, "statements")[0]
    assert "CREATE TABLE" in first["statement"]
    assert missing == {}
    status = {row["name"]: row["value"] for row in rows_of(seen, "status")}
    assert status["handler_write"] >= ROWS
