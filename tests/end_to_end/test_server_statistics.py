"""What a server's statistics counted in a window, held against what was done in it."""

import contextlib
import os
import signal
import time

import pytest

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.machine.host import Host
from replayer.run import watching
from replayer.servers.open import open_server

ROWS = 900
ASKED_SECONDS = 1.5
"""After a mark: a connection is made first, and all views are asked, on a busy machine too."""
MAKE = {
    "postgres": "CREATE TABLE replayer.counted AS SELECT i, repeat('x', 100) AS t "
    f"FROM generate_series(1, {ROWS}) AS i",
    "mariadb": "CREATE TABLE counted AS SELECT seq AS i, REPEAT('x', 100) AS t "
    f"FROM seq_1_to_{ROWS}",
    "mysql": "CREATE TABLE counted AS WITH RECURSIVE s AS (SELECT 1 AS i UNION ALL SELECT i + 1 "
    f"FROM s WHERE i < {ROWS}) SELECT i, REPEAT('x', 100) AS t FROM s",
}


def seen_of(server):
    """Return what was seen of a window in which a table was made, and why what was missing."""
    make = MAKE[server.engine.name]
    table = make.split()[2]
    with contextlib.closing(Database(server.engine, server.start())) as database:
        with watching.recordings(("statistics",), Host(), None, server) as recordings:
            seen = marked(recordings, database, make)
        database.query(f"DROP TABLE {table}")
    return seen


def marked(recordings, database, statement):
    """Execute a statement between two marks and return what was seen and what was not."""
    marks = [time.monotonic_ns()]
    recordings.mark(marks[0])
    time.sleep(ASKED_SECONDS)
    database.query(statement)
    time.sleep(1.2)
    # A backend of PostgreSQL tells what it did once it has something else to do.
    database.query("SELECT 1")
    time.sleep(0.3)
    marks.append(time.monotonic_ns())
    recordings.mark(marks[1])
    recordings.end()
    seen = recordings.seen(*marks)
    return seen.get("statistics"), recordings.failures


def rows_of(seen, view):
    """Return the rows of a view."""
    return seen.tables.get(f"statistics.{view}", ())


def test_the_log_and_the_pages_of_a_table_are_counted(server):
    """A new table is in the log, and its pages were added to a file by who made it."""
    seen, missing = seen_of(server)

    (wal,) = rows_of(seen, "wal")
    assert wal["wal_bytes"] > 1000
    extended = [row for row in rows_of(seen, "io") if row["backend_type"] == "client backend"]
    assert sum(row.get("extend_bytes") or 0 for row in extended) > 100 * ROWS
    assert list(missing) == ["statistics.statements"]
    assert "pg_stat_statements" in missing["statistics.statements"]


def test_a_connection_that_was_lost_between_the_marks_loses_no_view(server):
    """As where a step restarts the server for a cold cache: it is asked again by a new one."""
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    with contextlib.closing(Database(server.engine, server.start())) as database:
        database.query("CREATE TABLE replayer.lost AS SELECT 1 AS i")
        with watching.recordings(("statistics",), Host(), None, server) as recordings:
            seen, missing = marked(
                recordings, database, f"{others} AND backend_type = 'client backend'"
            )
        database.query("DROP TABLE replayer.lost")

    assert rows_of(seen, "io")
    assert list(missing) == ["statistics.statements"]


@pytest.mark.parametrize("how", ["reset", "crash"])
def test_counters_that_were_set_back_in_the_window_are_no_differences(server, how):
    """Not even those that have grown beyond what they were before."""
    with (
        contextlib.closing(Database(server.engine, server.start())) as database,
        watching.recordings(("statistics",), Host(), None, server) as recordings,
    ):
        begin = time.monotonic_ns()
        recordings.mark(begin)
        time.sleep(ASKED_SECONDS)
        if how == "reset":
            database.query("SELECT pg_stat_reset_shared('io'), pg_stat_reset_shared('wal')")
        else:
            crashed(database)
        time.sleep(0.5)
        end = time.monotonic_ns()
        recordings.mark(end)
        recordings.end()
        assert recordings.seen(begin, end).get("statistics") is None

    assert "set back in the window" in recordings.failures["statistics"]


def crashed(database):
    """Kill a process of the server, which begins anew then, and wait until it has."""
    pid = database.fetch(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'", verb="test"
    )[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    time.sleep(4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "views"),
    [
        ("postgresql-13", set()), ("postgresql-14", {"wal"}), ("postgresql-16", {"wal", "io"}),
        ("postgresql-17", {"wal", "io"}),
    ],
)  # fmt: skip
def test_other_versions_have_other_views(other_server, name, views):
    """Before 16 there is no pg_stat_io, before 14 no pg_stat_wal; what is there moved."""
    with open_server(engines.load("postgres"), bindir=other_server(name)) as server:
        server.start()
        seen, missing = seen_of(server)

    assert (set() if seen is None else {view[11:] for view in seen.tables}) == views
    assert any("pg_stat_statements" in why for why in missing.values())


def test_the_heaviest_statements_are_told(postgres15, own_home):
    """Where pg_stat_statements is loaded and made, each statement of the window has a row."""
    library = {"shared_preload_libraries": "pg_stat_statements"}
    with open_server(engines.load("postgres"), bindir=postgres15, settings=library) as server:
        with contextlib.closing(Database(server.engine, server.start())) as database:
            database.query("CREATE EXTENSION pg_stat_statements SCHEMA replayer")
        seen, missing = seen_of(server)

    statements = rows_of(seen, "statements")
    assert statements
    assert missing == {}
    assert all(row["calls"] >= 1 for row in statements)


def test_mariadbs_status_counts_its_rows(mariadbd):
    """Its status variables moved by the rows of the table; its digests are switched off."""
    with open_server(engines.load("mariadb"), bindir=mariadbd.parent) as server:
        server.start()
        seen, missing = seen_of(server)

    status = {row["name"]: row["value"] for row in rows_of(seen, "status")}
    assert status["handler_write"] >= ROWS
    assert status["com_create_table"] == 1
    assert "performance_schema" in missing["statistics.statements"]


def test_a_status_of_mariadb_that_was_flushed_in_the_window_is_no_difference(mariadbd):
    """It sets some counters back and not others, and does not say which."""
    with open_server(engines.load("mariadb"), bindir=mariadbd.parent) as server:
        server.start()
        time.sleep(3)
        with (
            contextlib.closing(Database(server.engine, server.start())) as database,
            watching.recordings(("statistics",), Host(), None, server) as recordings,
        ):
            seen, missing = marked(recordings, database, "FLUSH STATUS")

    assert seen is None
    assert "set back in the window" in missing["statistics"]


@pytest.mark.slow
def test_mysqls_digests_tell_the_statement(other_server):
    """performance_schema is on by default, and the table's statement is the one that took time."""
    with open_server(engines.load("mysql"), bindir=other_server("mysql-9")) as server:
        server.start()
        seen, missing = seen_of(server)

    first = rows_of(seen, "statements")[0]
    assert "CREATE TABLE" in first["statement"]
    assert missing == {}
    status = {row["name"]: row["value"] for row in rows_of(seen, "status")}
    assert status["handler_write"] >= ROWS
