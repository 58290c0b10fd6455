"""Captures replayed on the real server: what ends up in it, what is measured, what goes wrong."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import Impossible
from replayer.model import Outcome, Replayed, StepResult
from replayer.results import store, stored_histogram
from replayer.run.context import Context
from replayer.servers.open import Server, open_server
from replayer.servers.private import PrivateServer
from tests.captured import Capture
from tests.command import Ended, Replayer
from tests.fixture_types import Surroundings
from tests.halting import go_on, halt
from tests.known import known, quantity
from tests.logged import logging_server
from tests.replaying import (
    OWN,
    SOURCE,
    Ask,
    Replay,
    Rows,
    begun_from,
    perform_replay,
    query,
    remove_databases,
    value,
    whole,
)
from tests.server_pool import ServerPool
from tests.waiting import wait_until

PATIENT = "10m"
"""A limit that a busy machine does not reach; what hangs does."""


@pytest.fixture
def server(server_pool: ServerPool) -> Server:
    """Return a server that does not wait for the disk where databases are made and removed."""
    return server_pool(settings={"fsync": "off"})


@pytest.fixture
def source(server: Server) -> Iterator[URL]:
    """Make a database to begin from: accounts, a log of what was done, another schema."""
    tables = (
        "CREATE TABLE account (id int PRIMARY KEY, balance bigint)",
        "INSERT INTO account SELECT n, 100 FROM generate_series(1, 20) AS n",
        "CREATE TABLE done (who text, what text, at timestamptz DEFAULT now())",
        "CREATE SCHEMA other CREATE TABLE place (name text)",
    )
    with begun_from(server, *tables):
        yield server.start().set(database=SOURCE)


def in_source(server: Server, *statements: str) -> Rows:
    """Execute statements in the database to begin from; return the rows of the last."""
    return query(server, *statements, database=SOURCE)


@pytest.fixture
def replay(context: Context, source: URL, tmp_path: Path) -> Replay:
    """Return a function that replays a capture from the source's state, and what it found."""

    def run(capture: Capture | Path | str, **keys: object) -> Outcome:
        if isinstance(capture, Capture):
            capture = capture.write(tmp_path / "a.replay")
        return perform_replay(context, capture, **{"restore": SOURCE, **keys})

    return run


@pytest.fixture
def rows(server: Server) -> Ask:
    """Return a function that asks the database that was replayed into."""
    return lambda statement: query(server, statement, database=OWN)


@pytest.fixture
def run(replayer: Replayer, source: URL) -> Callable[..., Ended]:
    """Return a function that runs a capture against the source's server by the command line."""

    def call(path: Path, *more: object, status: int = 0, url: URL = source) -> Ended:
        shown = url.render_as_string(hide_password=False)
        words = ("run", path, "--engine", shown, "--json", "--results", "results")
        return replayer(*words, "--set", "replay.speed=0", *more, status=status)

    return call


def by_text(outcome: Outcome) -> dict[str, Replayed]:
    """Return what became of each fingerprint by its text."""
    return {one.text: one for one in outcome.replayed}


def errors(outcome: Outcome) -> list[dict[str, int]]:
    """Return the errors of each fingerprint that had any."""
    return [dict(one.errors) for one in outcome.replayed if one.errors]


def transfers(sessions: int = 4, each: int = 50) -> Capture:
    """Return a capture of up to 8 sessions that move money, with prepared statements.

    Rows are locked in the order of their numbers: there is no deadlock.
    """
    capture = Capture()
    update = "UPDATE account SET balance = balance + $1 WHERE id = $2"
    for number in range(1, sessions + 1):
        capture.session(number, connects=number / 1000)
        for turn in range(each):
            at = 0.1 + turn / 100 + number / 5000
            capture.runs(number, at, "BEGIN", lasts=0.0001)
            for place, (amount, who) in enumerate(((-1, number), (1, 9 + turn % 12))):
                capture.runs(
                    number, at + 0.001 * (place + 1), update, name="S_1", lasts=0.0001,
                    parameters=(str(amount), str(who)),
                )  # fmt: skip
            capture.runs(number, at + 0.004, "COMMIT", lasts=0.0001)
        capture.leaves(number, 0.2 + each / 100)
    return capture


def after_transfers(sessions: int, each: int) -> Rows:
    """Return the balances that these transfers leave."""
    balances = dict.fromkeys(range(1, 21), 100)
    for number in range(1, sessions + 1):
        for turn in range(each):
            balances[number] -= 1
            balances[9 + turn % 12] += 1
    return sorted(balances.items())


BALANCES = "SELECT id, balance FROM account ORDER BY id"


def test_a_replay_ends_in_the_state_of_its_source(replay: Replay, rows: Ask) -> None:
    """Transactions, prepared statements and parameters without types do what they did."""
    outcome = replay(transfers())

    assert rows(BALANCES) == after_transfers(4, 50)
    done = {one.kind: (one.executions, one.rows, one.errors) for one in outcome.replayed}
    assert done["update"] == (400, 400, {})
    assert done["commit"] == (200, 0, {})
    assert value(outcome, "replay.ran") == 100
    assert value(outcome, "replay.statements") > 0
    assert outcome.facts["replay.divergences.log"] == 0
    assert sum(known(one.service).operations for one in outcome.replayed) == 800
    assert outcome.ledger is not None
    assert outcome.series is not None
    assert outcome.series.columns["replay.statements"]


def total(outcome: Outcome, name: str) -> float:
    """Return the sum of all latencies of a kind in seconds, as exact as a histogram is."""
    kept = stored_histogram.decode(outcome.latency[name].payload)
    seconds: float = kept.get_mean_value() * kept.total_count / 1e9
    return seconds


def test_no_statement_begins_before_it_is_due(replay: Replay) -> None:
    """At a speed the whole lasts as long as the capture, divided by it, or longer; not shorter."""
    outcome = replay(transfers(), speed=2)

    # From the first connection to the end of the last session.
    assert value(outcome, "replay.elapsed") >= (0.7 - 0.001) / 2
    assert outcome.latency["response"].operations == 800
    # What was late is in the response time, and nothing else is.
    late = total(outcome, "response") - total(outcome, "service")
    assert late == pytest.approx(total(outcome, "lag"), rel=0.05, abs=0.01)
    assert outcome.series is not None
    assert len(outcome.series.columns["replay.lag_server"]) == len(outcome.series.seconds)


def behind_a_slow_one() -> Capture:
    """Return a capture of statements that were due while one of a second has no answer here."""
    capture = Capture().session(1).runs(1, 0.1, "SELECT pg_sleep(1)", lasts=0.01)
    for turn in range(10):
        capture.runs(1, 0.2 + turn / 100, "SELECT 1")
    return capture


@pytest.mark.slow
def test_lag_behind_a_slow_statement_is_the_servers(replay: Replay) -> None:
    """Who is not answered in time begins late, and replayer is not why."""
    outcome = replay(behind_a_slow_one(), speed=1)

    # Due at 0.2 to 0.29, and asked after 1.1 seconds.
    assert value(outcome, "replay.lag.server.max") >= 0.9 * 0.99
    assert total(outcome, "lag.server") >= sum(0.9 - turn / 100 for turn in range(10)) * 0.99
    assert value(outcome, "replay.response.max") >= 0.9
    # Each second of being late is on one side only.
    both = total(outcome, "lag.server") + total(outcome, "lag.client")
    assert both == pytest.approx(total(outcome, "lag"), rel=0.05)


@pytest.mark.quiet
def test_statements_begin_when_they_are_due(replay: Replay) -> None:
    """Where nothing else runs lag is small, but for the server's behind a slow statement."""
    outcome = replay(transfers(), speed=2)
    slow = replay(behind_a_slow_one(), speed=1)

    assert value(outcome, "replay.elapsed") < 0.65
    assert value(outcome, "replay.lag.client.p50") < 0.02
    assert value(slow, "replay.lag.server.max") == pytest.approx(0.9, abs=0.2)
    assert value(slow, "replay.lag.client.max") < 0.1


def test_a_session_has_its_own_settings_and_the_name_of_its_program(
    replay: Replay, rows: Ask
) -> None:
    """What it began with, and what it set meanwhile; a second session has neither."""
    insert = "INSERT INTO done (who, what) SELECT current_setting('application_name'), $1"
    capture = (
        Capture()
        .session(1, application="shop", settings=(("search_path", "other, public"),))
        .session(2, application="books")
        .runs(1, 0.1, "INSERT INTO place VALUES ('here')")
        .runs(1, 0.2, "SET search_path = public")
        .runs(1, 0.3, insert, parameters=("first",))
        .runs(2, 0.4, "INSERT INTO place VALUES ('nowhere')", sqlstate="42P01")
        .runs(2, 0.5, insert, parameters=("second",))
    )
    outcome = replay(capture)

    assert rows("SELECT name FROM other.place") == [("here",)]
    assert rows("SELECT who, what FROM done ORDER BY what") == [
        ("shop", "first"),
        ("books", "second"),
    ]
    assert outcome.facts["replay.divergences.log"] == 0


@pytest.fixture
def roles(server: Server, source: URL) -> Iterator[None]:
    """Make roles: one that may insert, and one that may log in and take on neither."""
    dropped = [f"DROP ROLE IF EXISTS {name}" for name in ("shopper", "weak")]
    query(server, *dropped, "CREATE ROLE shopper", "CREATE ROLE weak LOGIN")
    in_source(
        server, f"GRANT CREATE ON DATABASE {SOURCE} TO weak", "GRANT ALL ON done TO shopper, weak"
    )
    yield
    remove_databases(server)
    query(server, *dropped)


def of_two_users() -> Capture:
    """Return a capture of sessions of a role that there is, and of one that there is not."""
    insert = "INSERT INTO done (who, what) VALUES (current_user, $1)"
    capture = Capture().session(1, user="shopper").session(2, user="stranger")
    return capture.runs(1, 0.1, insert, parameters=("a",)).runs(2, 0.2, insert, parameters=("b",))


def test_a_session_has_the_role_of_its_user_where_that_may_be_taken_on(
    replay: Replay, rows: Ask, roles: None
) -> None:
    """Else it is the URL's user, and that is told by name."""
    outcome = replay(of_two_users())

    assert rows("SELECT who, what FROM done ORDER BY what") == [("shopper", "a"), ("postgres", "b")]
    (note,) = [note for note in outcome.notes if "other users" in note]
    assert "1 session of other users (stranger 1) was replayed as postgres" in note


@pytest.mark.slow
def test_a_user_who_may_not_take_on_roles_replays_as_itself(
    server: Server, source: URL, roles: None, run: Callable[..., Ended], tmp_path: Path
) -> None:
    """No session is refused for it; both users are named."""
    path = of_two_users().write(tmp_path / "a.replay")
    out, _ = run(path, "--i-will-change", SOURCE, url=source.set(username="weak", password=None))

    (result,) = json.loads(out)["steps"]
    (one,) = result["replayed"]
    assert (one["executions"], one["errors"]) == (2, {})
    (note,) = [note for note in result["notes"] if "other users" in note]
    assert "shopper 1, stranger 1) were replayed as weak" in note
    assert in_source(server, "SELECT who FROM done") == [("weak",)] * 2


def test_what_follows_from_an_error_is_told_apart_from_it(replay: Replay) -> None:
    """One statement that fails has one error, whatever came after it in its transaction."""
    capture = Capture().session(1).runs(1, 0.1, "BEGIN")
    capture.runs(1, 0.2, "INSERT INTO account VALUES (1, 0)")
    for turn in range(20):
        capture.runs(1, 0.3 + turn / 100, f"UPDATE account SET balance = 5 WHERE id = {turn}")
    capture.runs(1, 0.9, "COMMIT").runs(1, 1.0, "SELECT count(*) FROM account")
    outcome = replay(capture)

    by_kind = {one.kind: one for one in outcome.replayed}
    assert by_kind["insert"].errors == {"23505": 1}
    assert (by_kind["update"].errors, by_kind["update"].consequences) == ({}, 20)
    (divergence,) = outcome.tables["divergences"]
    assert (divergence["what"], divergence["ours"]) == ("errors", "1 x 23505")
    assert divergence["session"] == 1
    assert value(outcome, "replay.errors") == 1


def test_statements_that_are_forgotten_and_renamed_are_prepared_again(
    replay: Replay, rows: Ask
) -> None:
    """DEALLOCATE, DISCARD ALL and another text of the same name leave no consequence."""
    one, two = "INSERT INTO done (who) VALUES ($1)", "INSERT INTO done (what) VALUES ($1)"
    named: dict[str, Any] = {"name": "S_1", "parameters": ("x",)}
    capture = Capture().session(1).runs(1, 0.1, one, **named)
    capture.runs(1, 0.2, 'DEALLOCATE "S_1"').runs(1, 0.3, one, **named)
    capture.runs(1, 0.4, two, **named).runs(1, 0.5, "DISCARD ALL").runs(1, 0.6, two, **named)
    outcome = replay(capture)

    assert rows("SELECT count(who) AS who, count(what) AS what FROM done") == [(2, 2)]
    assert value(outcome, "replay.errors") == 0


@pytest.mark.parametrize("sessions", [None, 1])
def test_a_statement_that_is_forgotten_leaves_the_others(
    replay: Replay, rows: Ask, sessions: int | None
) -> None:
    """Each is still known by its name where sessions share a connection, too."""
    one, two = "INSERT INTO done (who) VALUES ($1)", "INSERT INTO done (what) VALUES ($1)"
    first: dict[str, Any] = {"name": "pdo_stmt_00000001", "parameters": ("x",)}
    second: dict[str, Any] = {"name": "pdo_stmt_00000002", "parameters": ("y",)}
    forgets = (
        "DEALLOCATE pdo_stmt_00000001",
        "DISCARD PLANS",
        "/* tool */ deallocate PREPARE PDO_stmt_00000001 ;",
        "RESET ALL; DEALLOCATE ALL",
    )
    capture = Capture().session(1)
    for turn, forget in enumerate(forgets):
        capture.runs(1, turn + 0.1, one, **first).runs(1, turn + 0.2, two, **second)
        capture.runs(1, turn + 0.3, forget).runs(1, turn + 0.4, two, **second)
    capture.runs(1, 5, "PREPARE a AS SELECT 1; DEALLOCATE a").runs(1, 5.1, two, **second)
    capture.runs(1, 5.2, "PREPARE a AS SELECT 1").runs(1, 5.3, "DEALLOCATE a")
    outcome = replay(capture, sessions=sessions, speed=100)

    assert [dict(each.errors) for each in outcome.replayed if each.errors] == []
    assert rows("SELECT count(who) AS who, count(what) AS what FROM done") == [(4, 9)]


def test_copy_from_the_client_ends_in_an_error_and_not_in_a_hang(replay: Replay) -> None:
    """Its data were never logged; it is left out, and the session goes on."""
    capture = Capture().session(1).runs(1, 0.1, "COPY done FROM Stdin")
    capture.runs(1, 0.2, "COPY done FROM Stdin", parameters=()).runs(1, 0.2, "COPY done FROM STDIN")
    capture.runs(1, 0.3, "COPY account TO STDOUT").runs(1, 0.4, "SELECT 1")
    outcome = replay(capture)

    assert sum(sum(one.errors.values()) for one in outcome.replayed) == 0
    assert value(outcome, "replay.ran") == 100


@pytest.mark.slow
def test_answers_of_megabytes_are_taken_whole_and_their_rows_counted(replay: Replay) -> None:
    """Messages that lie across reads, long statements that the socket does not take at once."""
    long = "SELECT length('" + "x" * 3_000_000 + "')"
    capture = Capture().session(1)
    capture.runs(1, 0.1, "SELECT repeat('y', 1000) FROM generate_series(1, 20000)")
    capture.runs(1, 0.2, long).runs(1, 0.3, "SELECT 1 WHERE false").runs(1, 0.4, "SELECT 2")
    outcome = replay(capture, verify="hash")

    assert sum(known(one.rows) for one in outcome.replayed) == 20_002
    assert value(outcome, "replay.ran") == 100


def test_a_statement_timeout_ends_what_takes_too_long(replay: Replay) -> None:
    """An error of its own, as another one is, and the session goes on."""
    capture = Capture().session(1).runs(1, 0.1, "SELECT pg_sleep(600)").runs(1, 0.2, "SELECT 1/0")
    capture.runs(1, 0.3, "SELECT count(*) FROM account")
    outcome = replay(capture, statement_timeout="200ms")

    assert errors(outcome) == [{"57014": 1}, {"22012": 1}]
    assert sum(known(one.rows) for one in outcome.replayed) == 1
    assert value(outcome, "replay.ran") == 100


@pytest.mark.slow
def test_commit_order_ends_in_the_same_state_however_fast(replay: Replay, rows: Ask) -> None:
    """Changes that do not commute happen as they did, though every session is at once."""
    capture = Capture()
    expected = 7
    for number in range(1, 9):
        capture.session(number)
    for turn in range(160):
        expected = (expected * 3 + turn) % 1_000_003
        text = f"UPDATE account SET balance = (balance * 3 + {turn}) % 1000003 WHERE id = 1"
        capture.runs(1 + turn * 5 % 8, 0.1 + turn / 100, text)
    start = "UPDATE account SET balance = 7 WHERE id = 1"
    capture.runs(1, 0.05, start)
    for order in ("commit", "commit", "serial"):
        outcome = replay(capture, order=order, order_timeout=PATIENT)
        assert rows("SELECT balance FROM account WHERE id = 1") == [(expected,)]
        assert whole(outcome)


def test_who_waits_for_those_that_wait_for_its_lock_goes_out_of_turn(
    replay: Replay, server: Server
) -> None:
    """One waits here for its turn, the other in the server: neither would ever go on."""
    in_source(
        server,
        "CREATE FUNCTION once_it_is_held() RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
        "WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77) "
        "LOOP PERFORM pg_sleep(0.01); END LOOP; END $$",
    )
    lock = "SELECT pg_advisory_xact_lock(77) FROM account WHERE id = 1 FOR UPDATE"
    capture = Capture().session(1).session(2)
    # In the source the second had the lock first, which the first one's here takes for ever.
    capture.runs(1, 0.1, "BEGIN").runs(1, 0.2, lock).runs(2, 0.3, "SELECT once_it_is_held()")
    capture.runs(2, 0.4, "UPDATE account SET balance = 0 WHERE id = 1", lasts=0.1)
    capture.runs(1, 0.6, "UPDATE account SET balance = 1 WHERE id = 1").runs(1, 0.7, "COMMIT")
    outcome = replay(capture, order="commit", order_timeout=PATIENT)

    assert outcome.facts["replay.out_of_turn"] == 1
    assert whole(outcome)
    assert any("went before their turn" in note for note in outcome.notes), outcome.notes


@pytest.mark.slow
def test_what_takes_too_long_in_the_order_is_a_counted_timeout(replay: Replay) -> None:
    """A change that waits for another one that goes on and on goes after its time."""
    capture = Capture().session(1).session(2)
    capture.runs(1, 0.1, "SELECT pg_sleep(3) FROM account WHERE id = 1 FOR UPDATE")
    capture.runs(2, 0.2, "UPDATE account SET balance = 0 WHERE id = 2")
    outcome = replay(capture, order="commit", order_timeout="0.5s")

    assert outcome.facts["replay.order_timeouts"] == 1
    assert outcome.facts["replay.out_of_turn"] == 0
    assert value(outcome, "replay.ran") == 100
    assert any("waited for more than 0.5 s" in note for note in outcome.notes), outcome.notes


@pytest.mark.parametrize(("sessions", "speed"), [(2, 0), (2, 5), (1, 0)])
def test_fewer_connections_than_sessions_are_shared_by_transaction(
    replay: Replay, rows: Ask, monkeypatch: pytest.MonkeyPatch, sessions: int, speed: int
) -> None:
    """No transaction meets another one's, and that they were shared is said.

    A machine with many cores has more processes than connections are allowed.
    """
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    outcome = replay(transfers(8, 20), sessions=sessions, speed=speed)

    assert rows("SELECT sum(balance) FROM account") == [(2000,)]
    assert value(outcome, "replay.errors") == 0
    assert value(outcome, "replay.ran") == 100
    assert value(outcome, "replay.at_work") <= sessions + 0.01
    words = f"8 sessions at a time were captured, and {sessions} connections"
    assert any(words in note for note in outcome.notes)


@pytest.mark.parametrize("read_only", [False, True])
def test_what_acts_on_more_than_the_database_is_not_sent(
    replay: Replay, server: Server, *, read_only: bool
) -> None:
    """The number of a session in the log is that of somebody else's here."""
    with closing(Database(server.engine, server.start(), first=())) as theirs:
        pid = theirs.query("SELECT pg_backend_pid() AS pid")[0]["pid"]
        capture = Capture().session(1).runs(1, 0.1, f'SELECT "pg_terminate_backend" ({pid})')
        capture.runs(1, 0.2, "ALTER SYSTEM SET work_mem = '77MB'").runs(1, 0.3, "SELECT 17")
        outcome = replay(capture, read_only=read_only)
        assert theirs.query("SELECT pg_backend_pid() AS pid")[0]["pid"] == pid

    assert value(outcome, "replay.errors") == 0
    assert any("it acts on the server" in note for note in outcome.notes), outcome.notes


def test_read_only_replays_change_nothing(replay: Replay, rows: Ask) -> None:
    """Neither by a statement that is known to write nor by a function that does."""
    capture = Capture().session(1).runs(1, 0.1, "UPDATE account SET balance = 0")
    capture.runs(1, 0.2, "SELECT setval('s', 1)").runs(1, 0.3, "SELECT count(*) FROM account")
    outcome = replay(capture, read_only=True)

    assert rows("SELECT sum(balance) FROM account") == [(2000,)]
    assert "1 statement was left out: it may write" in outcome.notes


def test_a_session_that_ends_its_read_only_state_is_closed(
    replay: Replay, rows: Ask, server: Server
) -> None:
    """By a way that no text shows; the function that is called next finds it read only again."""
    in_source(
        server,
        "CREATE FUNCTION wipe() RETURNS int LANGUAGE sql AS "
        "'UPDATE account SET balance = 0; SELECT 1'",
    )
    hidden = "SELECT set_config('default_' || 'transaction' || '_read_only', 'off', false)"
    capture = Capture().session(1).runs(1, 0.1, hidden).runs(1, 0.2, "SELECT wipe()")
    outcome = replay(capture, read_only=True)

    assert rows("SELECT sum(balance) FROM account") == [(2000,)]
    assert outcome.facts["replay.sessions_lost"] == 1
    assert dict(by_text(outcome)["SELECT WIPE()"].errors) == {"25006": 1}


def test_a_killed_session_connects_again_and_goes_on(
    replay: Replay, rows: Ask, server: Server
) -> None:
    """What is left of its transaction is not run, and both is counted."""
    capture = Capture().session(1).runs(1, 0.1, "BEGIN")
    capture.runs(1, 0.2, "UPDATE account SET balance = 0 WHERE id = 1")
    capture.runs(1, 0.3, "SELECT pg_terminate_backend(pg_backend_pid())")
    capture.runs(1, 0.4, "UPDATE account SET balance = 0 WHERE id = 2").runs(1, 0.5, "COMMIT")
    capture.runs(1, 0.6, "UPDATE account SET balance = 3 WHERE id = 3")
    outcome = replay(capture)

    assert rows("SELECT balance FROM account WHERE id < 4 ORDER BY id") == [(100,), (100,), (3,)]
    assert outcome.facts["replay.sessions_lost"] == 1
    assert outcome.facts["replay.not_run"] == 2
    assert {"57P01": 1} in errors(outcome)


@pytest.mark.slow
def test_sessions_beyond_the_limit_wait_for_room(replay: Replay, server: Server) -> None:
    """A server that refuses connections is asked again, and everything runs in the end."""
    capture = Capture()
    for number in range(1, 21):
        capture.session(number).runs(number, 0.1, "SELECT pg_sleep(0.05)", lasts=1)
        capture.runs(number, 2, "SELECT 1").leaves(number, 3)
    with server.settings({"max_connections": "12"}):
        outcome = replay(capture)

    assert value(outcome, "replay.ran") == 100
    assert quantity(outcome.facts["replay.connections_refused"]) > 0


@pytest.mark.slow
def test_two_replays_differ_where_their_data_do(replay: Replay, server: Server) -> None:
    """A changed row is seen by exactly the fingerprints that read it; the same data by none."""
    capture = Capture().session(1)
    for number in range(1, 21):
        capture.runs(1, number / 100, f"SELECT balance FROM account WHERE id = {number}")
    capture.runs(1, 0.5, "SELECT name FROM other.place").runs(1, 0.6, "SELECT now(), random()")
    capture.runs(1, 0.7, "SELECT id FROM account ORDER BY balance, id LIMIT 5")
    control, again = (replay(capture, verify="hash") for _ in range(2))

    def same(one: Outcome) -> set[tuple[object, ...]]:
        return {(each.text, each.rows, each.rows_hash) for each in one.replayed if not each.varies}

    assert same(control) == same(again)
    in_source(server, "UPDATE account SET balance = 101 WHERE id = 7")
    changed = replay(capture, verify="hash")
    (moved,) = {str(text) for text, *_ in same(control) ^ same(changed)}
    assert "balance FROM account" in moved


@pytest.mark.slow
def test_a_database_that_is_not_replayers_is_not_changed_unasked(
    source: URL, run: Callable[..., Ended], tmp_path: Path
) -> None:
    """At a URL its name has to be typed; what only reads needs none."""
    path = transfers(1, 1).write(tmp_path / "a.replay")

    _, refused = run(path, status=2)
    assert f"allow that with --i-will-change {SOURCE}" in refused
    _, other = run(path, "--i-will-change", "shop", status=2)
    assert "the URL's database is" in other
    run(path, "--set", "replay.read_only=true")
    out, _ = run(path, "--i-will-change", SOURCE)
    (result,) = json.loads(out)["steps"]
    assert result["status"] == "done"
    assert {one["kind"] for one in result["replayed"]} == {"begin", "update", "commit"}


def start_long(replayer: Replayer, url: URL, folder: Path, *more: str) -> subprocess.Popen[str]:
    """Start the replay of a minute's statements, and wait until the server has had one."""
    capture = Capture().session(1, application="long")
    for turn in range(6000):
        capture.runs(1, turn / 100, "SELECT 1")
    path = capture.write(folder / "long.replay")
    shown = url.render_as_string(hide_password=False)
    return replayer.start("run", path, "--results", "results", "--engine", shown, *more)


def wait_for_sessions(server: Server, running: subprocess.Popen[str]) -> None:
    """Wait until the session of a long replay has sent something."""
    seen = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'long' AND query <> ''"
    while not query(server, seen):
        assert running.poll() is None, running.communicate()
        time.sleep(0.1)


def long_result(folder: Path) -> tuple[StepResult, Replayed]:
    """Return what the result of a long replay has, of which not all ran."""
    (path,) = (folder / "results").glob("*.json")
    (result,) = store.load(path).steps
    (one,) = result.replayed
    assert result.facts["replay.whole"] is False
    return result, one


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_ran(
    server: Server, source: URL, replayer: Replayer, tmp_path: Path, number: signal.Signals
) -> None:
    """Exit 130, and the result has what was answered by then."""
    running = start_long(replayer, source, tmp_path, "--i-will-change", SOURCE)
    wait_for_sessions(server, running)
    time.sleep(2.5)  # its processes report once a second
    running.send_signal(number)
    _, said = running.communicate(timeout=300)

    assert running.returncode == 130, said
    assert "Traceback" not in said
    result, one = long_result(tmp_path)
    assert result.status == "interrupted"
    assert 0 < one.executions < one.planned == 6000


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder in which everybody can write."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture
def dump(server: Server, source: URL) -> Callable[[str, Path], Path]:
    """Return a function that dumps the source in a format."""
    assert isinstance(server, PrivateServer)
    command = (server.programs.folder / "pg_dump", "-h", str(source.query["host"]), "-U")

    def make(dumped: str, path: Path) -> Path:
        words = ("postgres", f"--format={dumped}", "-f", path, SOURCE)
        subprocess.run([*command, *words], check=True)
        return path

    return make


@pytest.mark.slow
def test_a_dump_is_what_each_repeat_begins_from(
    replay: Replay, rows: Ask, dump: Callable[[str, Path], Path], tmp_path: Path
) -> None:
    """In each format the same replay ends in the same state, though the last one changed it.

    The server's user may not open the dump.
    """
    for dumped in ("plain", "custom", "tar"):
        path = dump(dumped, tmp_path / f"dump.{dumped}")
        path.chmod(0o600)
        replay(transfers(2, 5), restore=path)
        assert rows(BALANCES) == after_transfers(2, 5), dumped


@pytest.mark.slow
def test_a_dump_in_a_folder_is_loaded_where_the_servers_user_can_enter_it(
    replay: Replay,
    rows: Ask,
    dump: Callable[[str, Path], Path],
    open_folder: Path,
    server: PrivateServer,
) -> None:
    """Open to all it is what a replay begins from; closed, a sentence says who cannot enter it."""
    path = dump("directory", open_folder / "dump")
    if server.programs.user is not None:
        with pytest.raises(Impossible, match=rf"{server.programs.user.name}, .* cannot enter"):
            replay(transfers(2, 5), restore=path)
    for each in (path, *path.iterdir()):
        each.chmod(0o755)

    replay(transfers(2, 5), restore=path)

    assert rows(BALANCES) == after_transfers(2, 5)


def test_a_dump_runs_nothing_as_root(
    replay: Replay, tmp_path: Path, open_folder: Path, server: PrivateServer
) -> None:
    """A command in it is run by the server's user, though only replayer can open the dump."""
    path = tmp_path / "hostile.sql"
    path.write_text(f"\\! id -u > {open_folder}/uid\nSELECT 1;\n")
    path.chmod(0o600)

    replay(Capture().session(1).runs(1, 0.1, "SELECT 1").leaves(1, 1), restore=path)

    uid = int((open_folder / "uid").read_text())
    assert uid != 0
    assert uid == (server.programs.user.uid if server.programs.user else os.geteuid())


@pytest.mark.parametrize(("name", "sentence"), [("none/x", "no such file"), ("pipe", "neither a")])
def test_what_is_no_dump_is_one_sentence(
    replay: Replay, tmp_path: Path, name: str, sentence: str
) -> None:
    """One that is not there is named, and nobody waits for what comes through a pipe."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(Impossible, match=sentence):
        replay(transfers(1, 1), restore=tmp_path / name)


def test_files_that_are_no_captures_are_one_sentence(replay: Replay, tmp_path: Path) -> None:
    """None at all, one that is not there, one that is something else."""
    (tmp_path / "x.replay").write_bytes(b"SELECT 1")
    for name in ("x", "y"):
        with pytest.raises(Impossible):
            replay(tmp_path / f"{name}.replay")
    with pytest.raises(Impossible, match="needs the key file"):
        replay("")


def test_commit_order_needs_a_connection_for_each_session(replay: Replay) -> None:
    """Transactions that wait for each other cannot share one: it is refused before anything ran."""
    with pytest.raises(Impossible, match="each needs a connection"):
        replay(transfers(4, 2), order="commit", sessions=2)


@pytest.mark.slow
def test_a_server_that_crashes_and_comes_back_is_survived(replay: Replay, server: Server) -> None:
    """All sessions are lost at once, connect again, and go on; both is counted."""
    capture = Capture()
    for number in range(1, 5):
        capture.session(number, application="victim")
        for turn in range(120):
            capture.runs(number, 0.1 + turn / 20 + number / 1000, "SELECT 1")
    find = "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim' LIMIT 1"

    def kill() -> None:
        found = wait_until(lambda: query(server, find))
        time.sleep(1)
        os.kill(found[0][0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    outcome = replay(capture, speed=1)
    thread.join()

    assert quantity(outcome.facts["replay.sessions_lost"]) >= 4
    assert value(outcome, "replay.ran") > 95
    (one,) = outcome.replayed
    assert set(one.errors) <= {"57P02", "08006"}
    assert sum(one.errors.values()) <= 8
    assert any("lost its connection" in note for note in outcome.notes)


@pytest.mark.slow
def test_a_server_that_goes_silent_ends_the_replay_and_what_ran_is_kept(
    server: Server, source: URL, replayer: Replayer, tmp_path: Path
) -> None:
    """In one sentence, within the time in which silence is noticed, and a little."""
    # In a process of its own: nothing is asked any more of a server that was silent.
    running = start_long(
        replayer, source.set(database="postgres"), tmp_path, f"--set=replay.restore={SOURCE}"
    )
    wait_for_sessions(server, running)
    time.sleep(4)
    halted = server.pids()
    try:
        # The first of them is the one that would start others.
        halt(halted)
        began = time.monotonic()
        _, said = running.communicate(timeout=300)
        lasted = time.monotonic() - began
    finally:
        running.kill()
        go_on(halted)

    assert lasted < 40
    assert running.returncode == 1, said
    assert "Traceback" not in said
    result, one = long_result(tmp_path)
    assert result.status == "failed"
    assert "went silent" in result.reason
    assert "\n" not in result.reason
    assert 50 < one.executions < one.planned == 6000


CERTIFICATE = ["openssl", "req", "-new", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_over_tls_the_same_ends_the_same(
    surroundings: Surroundings, tmp_path: Path, postgres15: Path
) -> None:
    """Prepared statements, errors, rows and hashes as without it; the wheel's server has no TLS."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path
    subprocess.run(
        [*CERTIFICATE, "-keyout", folder / "key", "-out", folder / "crt"],
        check=True, capture_output=True,
    )  # fmt: skip
    with logging_server(bindir=postgres15) as source:
        for name in ("key", "crt"):
            shutil.copy(folder / name, source.folder / name)
            (source.folder / name).chmod(0o600)
            if source.user is not None:
                shutil.chown(source.folder / name, source.user.uid, source.user.gid)
        source.run("createdb", "shop")
        source.run(
            "psql", "-q", "-c", "CREATE TABLE account (id int PRIMARY KEY, balance int)", "shop"
        )
        outcomes = []
        capture = transfers(2, 10).runs(1, 5, "SELEC 1").runs(1, 5.1, "SELECT * FROM account")
        # An account of nobody's: as fast as can be, the transfers go on beside these.
        capture.runs(1, 5.2, "INSERT INTO account VALUES ($1, $2)", parameters=("100", None))
        capture.runs(1, 5.3, "COPY account FROM Stdin").runs(1, 5.4, "COPY account TO STDOUT")
        capture.runs(1, 5.5, "SELECT id FROM account ORDER BY id").runs(1, 5.6, "TRUNCATE account")
        path = capture.write(tmp_path / "a.replay")
        source.restart(
            f"listen_addresses = '127.0.0.1'\nport = {port}\nssl = on\n"
            f"ssl_cert_file = '{source.folder}/crt'\nssl_key_file = '{source.folder}/key'\n"
        )
        for mode in ("disable", "require"):
            url = f"postgresql://postgres@127.0.0.1:{port}/shop?sslmode={mode}"
            with open_server(engines.of_url(url), url=url) as there:
                keys = {"verify": "hash", "i_will_change": "shop"}
                outcomes.append(perform_replay(surroundings(there), path, **keys))
    plain, encrypted = (
        {(one.text, one.rows, one.rows_hash, str(one.errors)) for one in outcome.replayed}
        for outcome in outcomes
    )
    assert plain == encrypted
    assert value(outcomes[1], "replay.ran") == 100


@pytest.mark.slow
def test_a_replay_is_held_against_another_run(
    server: Server, source: URL, run: Callable[..., Ended], replayer: Replayer, tmp_path: Path
) -> None:
    """Equal data diverge in nothing; a changed row in exactly the fingerprint that reads it."""
    capture = Capture().session(1)
    for number in range(1, 11):
        capture.runs(1, number / 100, f"SELECT balance FROM account WHERE id = {number}")
    capture.runs(1, 0.5, "SELECT name FROM other.place").runs(1, 0.6, "SELECT now(), random()")
    path = capture.write(tmp_path / "a.replay")

    def result(*more: str) -> dict[str, Any]:
        words = [f"--set=replay.{key}" for key in (f"restore={SOURCE}", "verify=hash", *more)]
        out, _ = run(path, *words, url=source.set(database="postgres"))
        (found,) = json.loads(out)["steps"]
        assert isinstance(found, dict)
        return found

    result()
    (control,) = (tmp_path / "results").glob("*.json")
    same = result(f"against={control}")
    in_source(server, "UPDATE account SET balance = 101 WHERE id = 7")
    changed = result(f"against={control}")

    assert same["facts"]["replay.divergences.run"] == 0
    assert {row["what"] for row in same["tables"]["divergences"]} == {"varying"}
    (row,) = [row for row in changed["tables"]["divergences"] if row["what"] != "varying"]
    assert (row["what"], changed["facts"]["replay.divergences.run"]) == ("answers", 1)
    assert "balance" in row["text"]
    assert "Replayed 12 of 12 statements" in replayer("show", control).out
