"""Captures replayed on the real server: what ends up in it, what is measured, what goes wrong."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import Impossible
from replayer.results import store
from replayer.servers.open import open_server
from replayer.steps.replay import step
from replayer.steps.replay.spec import Spec
from tests.captured import Capture
from tests.halting import go_on, halt
from tests.logged import logging_server
from tests.performed import performed

TEMPLATE = "replay_source"
OWN = "replayer_replay"


@pytest.fixture
def source(server):
    """Make a database to begin from: accounts, a log of what was done, another schema."""
    with closing(Database(server.engine, server.start())) as control:
        control.query(f"DROP DATABASE IF EXISTS {TEMPLATE}")
        control.query(f"CREATE DATABASE {TEMPLATE}")
        url = server.start().set(database=TEMPLATE)
        with closing(Database(server.engine, url, first=())) as database:
            database.query("CREATE TABLE account (id int PRIMARY KEY, balance bigint)")
            database.query("INSERT INTO account SELECT n, 100 FROM generate_series(1, 20) AS n")
            database.query("CREATE TABLE done (who text, what text, at timestamptz DEFAULT now())")
            database.query("CREATE SCHEMA other CREATE TABLE place (name text)")
    yield url
    # The test may have started the server anew.
    with closing(Database(server.engine, server.start())) as control:
        control.query(f"DROP DATABASE IF EXISTS {OWN} WITH (FORCE)")
        control.query("DELETE FROM replayer_owned WHERE kind = 'database'")
        control.query(f"DROP DATABASE IF EXISTS {TEMPLATE} WITH (FORCE)")


@pytest.fixture
def replay(context, source, tmp_path):
    """Return a function that replays a capture from the source's state, and what it found."""

    def run(capture, **keys):
        path = capture if isinstance(capture, str) else str(capture.write(tmp_path / "a.replay"))
        asked = {"step": "replay", "file": path, "speed": 0, "restore": TEMPLATE, **keys}
        return performed(step, Spec.model_validate(asked), context)

    return run


@pytest.fixture
def rows(server):
    """Return a function that asks the database that was replayed into."""

    def ask(statement):
        url = server.start().set(database=OWN)
        with closing(Database(server.engine, url, first=())) as database:
            return [tuple(row.values()) for row in database.query(statement)]

    return ask


def by_text(outcome):
    """Return what became of each fingerprint by its text."""
    return {one.text: one for one in outcome.replayed}


def value(outcome, metric):
    """Return a measurement."""
    return next(m.value for m in outcome.measurements if m.metric == metric)


def transfers(sessions=4, each=50):
    """Return a capture of up to 8 sessions that move money, with prepared statements.

    Rows are locked in the order of their numbers: there is no deadlock.
    """
    capture = Capture()
    update = "UPDATE account SET balance = balance + $1 WHERE id = $2"
    for number in range(1, sessions + 1):
        capture.session(number, connects=number / 1000)
        for turn in range(each):
            at = 0.1 + turn / 100 + number / 5000
            of = {"lasts": 0.0001}
            capture.runs(number, at, "BEGIN", **of)
            for place, (amount, who) in enumerate(((-1, number), (1, 9 + turn % 12))):
                capture.runs(
                    number, at + 0.001 * (place + 1), update, name="S_1",
                    parameters=(str(amount), str(who)), **of,
                )  # fmt: skip
            capture.runs(number, at + 0.004, "COMMIT", **of)
        capture.leaves(number, 0.2 + each / 100)
    return capture


def test_a_replay_ends_in_the_state_of_its_source(replay, rows):
    """Transactions, prepared statements and parameters without types do what they did."""
    outcome = replay(transfers())

    assert rows("SELECT sum(balance), count(*) FROM account") == [(2000, 20)]
    expected = dict.fromkeys(range(1, 21), 100) | dict.fromkeys(range(1, 5), 50)
    for turn in range(50):
        expected[9 + turn % 12] += 4
    assert rows("SELECT id, balance FROM account ORDER BY id") == sorted(expected.items())
    done = {one.kind: (one.executions, one.rows, one.errors) for one in outcome.replayed}
    assert done["update"] == (400, 400, {})
    assert done["commit"] == (200, 0, {})
    assert value(outcome, "replay.ran") == 100
    assert value(outcome, "replay.statements") > 0
    assert outcome.facts["replay.divergences.log"] == 0
    assert sum(one.service.operations for one in outcome.replayed) == 800
    assert outcome.ledger is not None
    assert outcome.series.columns["replay.statements"]


def test_statements_begin_when_they_are_due(replay):
    """At a speed the whole lasts as long as the capture, divided by it; lag is small and known."""
    outcome = replay(transfers(), speed=2)

    # On a busy machine the last one may be late, but not by as much as it would be at speed 1.
    assert 0.7 / 2 - 0.1 < value(outcome, "replay.elapsed") < 0.65
    assert value(outcome, "replay.lag.client.p50") < 0.02
    assert outcome.latency["response"].operations == 800
    assert len(outcome.series.columns["replay.lag_server"]) == len(outcome.series.seconds)


def test_lag_behind_a_slow_statement_is_the_servers(replay):
    """Who is not answered in time begins late, and replayer is not why."""
    capture = Capture().session(1).runs(1, 0.1, "SELECT pg_sleep(1)", lasts=0.01)
    for turn in range(10):
        capture.runs(1, 0.2 + turn / 100, "SELECT 1")
    outcome = replay(capture, speed=1)

    assert value(outcome, "replay.lag.server.max") == pytest.approx(0.9, abs=0.2)
    assert value(outcome, "replay.lag.client.max") < 0.1
    assert value(outcome, "replay.response.max") > 0.9


def test_a_session_has_its_own_settings_and_the_name_of_its_program(replay, rows):
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
def roles(server, source):
    """Make roles: one that may insert, and one that may log in and take on neither."""
    with closing(Database(server.engine, server.start())) as control:
        for name in ("shopper", "weak"):
            control.query(f"DROP ROLE IF EXISTS {name}")
        control.query("CREATE ROLE shopper")
        control.query("CREATE ROLE weak LOGIN")
        control.query(f"GRANT CREATE ON DATABASE {TEMPLATE} TO weak")
    with closing(Database(server.engine, source, first=())) as database:
        database.query("GRANT ALL ON done TO shopper, weak")
    yield
    with closing(Database(server.engine, server.start())) as control:
        control.query(f"DROP DATABASE IF EXISTS {OWN} WITH (FORCE)")
        control.query(f"DROP DATABASE IF EXISTS {TEMPLATE} WITH (FORCE)")
        for name in ("shopper", "weak"):
            control.query(f"DROP ROLE {name}")


def of_two_users():
    """Return a capture of sessions of a role that there is, and of one that there is not."""
    insert = "INSERT INTO done (who, what) VALUES (current_user, $1)"
    capture = Capture().session(1, user="shopper").session(2, user="stranger")
    return capture.runs(1, 0.1, insert, parameters=("a",)).runs(2, 0.2, insert, parameters=("b",))


def test_a_session_has_the_role_of_its_user_where_that_may_be_taken_on(replay, rows, roles):
    """Else it is the URL's user, and that is told by name."""
    outcome = replay(of_two_users())

    assert rows("SELECT who, what FROM done ORDER BY what") == [("shopper", "a"), ("postgres", "b")]
    (note,) = [note for note in outcome.notes if "other users" in note]
    assert "1 sessions of other users (stranger 1) were replayed as postgres" in note


@pytest.mark.slow
def test_a_user_who_may_not_take_on_roles_replays_as_itself(server, source, roles, tmp_path):
    """No session is refused for it; both users are named."""
    path = str(of_two_users().write(tmp_path / "a.replay"))
    url = source.set(username="weak", password=None).render_as_string(hide_password=False)
    done = subprocess.run(
        [sys.executable, "-m", "replayer", "run", path, "--engine", url, "--json", "--results",
         str(tmp_path / "results"), "--set=replay.speed=0", "--i-will-change", TEMPLATE],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["steps"]
    (one,) = result["replayed"]
    assert (one["executions"], one["errors"]) == (2, {})
    (note,) = [note for note in result["notes"] if "other users" in note]
    assert "shopper 1, stranger 1) were replayed as weak" in note
    with closing(Database(server.engine, source, first=())) as database:
        assert [row["who"] for row in database.query("SELECT who FROM done")] == ["weak"] * 2


def test_what_follows_from_an_error_is_told_apart_from_it(replay):
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


def test_statements_that_are_forgotten_and_renamed_are_prepared_again(replay, rows):
    """DEALLOCATE, DISCARD ALL and another text of the same name leave no consequence."""
    one, two = "INSERT INTO done (who) VALUES ($1)", "INSERT INTO done (what) VALUES ($1)"
    named = {"name": "S_1", "parameters": ("x",)}
    capture = Capture().session(1).runs(1, 0.1, one, **named)
    capture.runs(1, 0.2, 'DEALLOCATE "S_1"').runs(1, 0.3, one, **named)
    capture.runs(1, 0.4, two, **named).runs(1, 0.5, "DISCARD ALL").runs(1, 0.6, two, **named)
    outcome = replay(capture)

    assert rows("SELECT count(who) AS who, count(what) AS what FROM done") == [(2, 2)]
    assert value(outcome, "replay.errors") == 0


def test_copy_from_the_client_ends_in_an_error_and_not_in_a_hang(replay):
    """Its data were never logged; the session goes on."""
    capture = Capture().session(1).runs(1, 0.1, "COPY done FROM STDIN")
    capture.runs(1, 0.2, "COPY done FROM STDIN", parameters=())
    capture.runs(1, 0.3, "COPY account TO STDOUT").runs(1, 0.4, "SELECT 1")
    outcome = replay(capture)

    assert sum(sum(one.errors.values()) for one in outcome.replayed) == 2
    assert value(outcome, "replay.ran") == 100


def test_answers_of_megabytes_are_taken_whole_and_their_rows_counted(replay):
    """Messages that lie across reads, long statements that the socket does not take at once."""
    long = "SELECT length('" + "x" * 3_000_000 + "')"
    capture = Capture().session(1)
    capture.runs(1, 0.1, "SELECT repeat('y', 1000) FROM generate_series(1, 20000)")
    capture.runs(1, 0.2, long).runs(1, 0.3, "SELECT 1 WHERE false").runs(1, 0.4, "SELECT 2")
    outcome = replay(capture, verify="hash")

    assert sum(one.rows for one in outcome.replayed) == 20_002
    assert value(outcome, "replay.ran") == 100


@pytest.mark.parametrize(
    ("slow", "code"), [("SELECT pg_sleep(5)", "57014"), ("SELECT 1/0", "22012")]
)
def test_a_statement_timeout_ends_what_takes_too_long(replay, slow, code):
    """An error of its own, and the session goes on."""
    capture = Capture().session(1).runs(1, 0.1, slow).runs(1, 0.2, "SELECT 1")
    outcome = replay(capture, statement_timeout="200ms")

    assert {code: 1} in [one.errors for one in outcome.replayed]
    assert value(outcome, "replay.elapsed") < 3


def test_commit_order_ends_in_the_same_state_however_fast(replay, rows):
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
    for _ in range(2):
        outcome = replay(capture, order="commit")
        assert rows("SELECT balance FROM account WHERE id = 1") == [(expected,)]
        assert outcome.facts["replay.order_timeouts"] == 0
    replay(capture, order="serial")
    assert rows("SELECT balance FROM account WHERE id = 1") == [(expected,)]


def test_what_never_comes_in_the_order_is_a_counted_timeout(replay):
    """A transaction that waits for one that is held up by it goes after its time."""
    lock = "SELECT * FROM account WHERE id = 1 FOR UPDATE"
    capture = Capture().session(1).session(2)
    # In the source the second had the lock first, which the first one's here takes for ever.
    capture.runs(1, 0.1, "BEGIN").runs(1, 0.2, lock).runs(2, 0.3, "SELECT pg_sleep(0.5)")
    capture.runs(2, 0.4, "UPDATE account SET balance = 0 WHERE id = 1", lasts=0.1)
    capture.runs(1, 0.6, "UPDATE account SET balance = 1 WHERE id = 1").runs(1, 0.7, "COMMIT")
    outcome = replay(capture, order="commit", order_timeout="1s")

    assert outcome.facts["replay.order_timeouts"] == 1
    assert value(outcome, "replay.ran") == 100
    assert any("waited for more than 1 s" in note for note in outcome.notes)


@pytest.mark.parametrize("speed", [0, 5])
def test_fewer_connections_than_sessions_are_shared_by_transaction(replay, rows, speed):
    """No transaction meets another one's, and that they were shared is said."""
    outcome = replay(transfers(8, 20), sessions=2, speed=speed)

    assert rows("SELECT sum(balance) FROM account") == [(2000,)]
    assert value(outcome, "replay.errors") == 0
    assert value(outcome, "replay.ran") == 100
    assert value(outcome, "replay.at_work") <= 2.01
    assert any("8 sessions at a time were captured, and 2 connections" in n for n in outcome.notes)


def test_read_only_replays_change_nothing(replay, rows):
    """Neither by a statement that is known to write nor by a function that does."""
    capture = Capture().session(1).runs(1, 0.1, "UPDATE account SET balance = 0")
    capture.runs(1, 0.2, "SELECT setval('s', 1)").runs(1, 0.3, "SELECT count(*) FROM account")
    outcome = replay(capture, read_only=True)

    assert rows("SELECT sum(balance) FROM account") == [(2000,)]
    assert "1 statements were left out: it may write" in outcome.notes


def test_a_session_that_ends_its_read_only_state_is_closed(replay, rows, source, server):
    """By a way that no text shows; the function that is called next finds it read only again."""
    with closing(Database(server.engine, source, first=())) as database:
        database.query(
            "CREATE FUNCTION wipe() RETURNS int LANGUAGE sql AS "
            "'UPDATE account SET balance = 0; SELECT 1'"
        )
    hidden = "SELECT set_config('default_' || 'transaction' || '_read_only', 'off', false)"
    capture = Capture().session(1).runs(1, 0.1, hidden).runs(1, 0.2, "SELECT wipe()")
    outcome = replay(capture, read_only=True)

    assert rows("SELECT sum(balance) FROM account") == [(2000,)]
    assert outcome.facts["replay.sessions_lost"] == 1
    assert dict(by_text(outcome)["SELECT WIPE()"].errors) == {"25006": 1}


def test_a_killed_session_connects_again_and_goes_on(replay, rows, server):
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
    assert {"57P01": 1} in [one.errors for one in outcome.replayed]


def test_sessions_beyond_the_limit_wait_for_room(replay, server):
    """A server that refuses connections is asked again, and everything runs in the end."""
    capture = Capture()
    for number in range(1, 21):
        capture.session(number).runs(number, 0.1, "SELECT pg_sleep(0.05)", lasts=1)
        capture.runs(number, 2, "SELECT 1").leaves(number, 3)
    with server.settings({"max_connections": "12"}):
        outcome = replay(capture)

    assert value(outcome, "replay.ran") == 100
    assert outcome.facts["replay.connections_refused"] > 0


def test_two_replays_differ_where_their_data_do(replay, rows, tmp_path, context, monkeypatch):
    """A changed row is seen by exactly the fingerprints that read it; the same data by none."""
    capture = Capture().session(1)
    for number in range(1, 21):
        capture.runs(1, number / 100, f"SELECT balance FROM account WHERE id = {number}")
    capture.runs(1, 0.5, "SELECT name FROM other.place").runs(1, 0.6, "SELECT now(), random()")
    capture.runs(1, 0.7, "SELECT id FROM account ORDER BY balance, id LIMIT 5")
    path = str(capture.write(tmp_path / "b.replay"))
    control = replay(path, verify="hash")
    again = replay(path, verify="hash")

    def same(one):
        return {(each.text, each.rows, each.rows_hash) for each in one.replayed if not each.varies}

    assert same(control) == same(again)
    with closing(Database(context.engine, context.server.start())) as database:
        url = database.url.set(database=TEMPLATE)
    with closing(Database(context.engine, url, first=())) as database:
        database.query("UPDATE account SET balance = 101 WHERE id = 7")
    changed = replay(path, verify="hash")
    moved = {text for text, *_ in same(control) ^ same(changed)}
    assert len(moved) == 1
    assert "balance FROM account" in moved.pop()


@pytest.mark.slow
def test_a_database_that_is_not_replayers_is_not_changed_unasked(server, source, tmp_path):
    """At a URL its name has to be typed; what only reads needs none."""
    path = str(transfers(1, 1).write(tmp_path / "a.replay"))
    url = source.render_as_string(hide_password=False)

    def run(*more):
        return subprocess.run(
            [sys.executable, "-m", "replayer", "run", path, "--engine", url, "--json",
             "--results", str(tmp_path / "results"), "--set", "replay.speed=0", *more],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    refused = run()
    assert refused.returncode == 2
    assert f"allow that with --i-will-change {TEMPLATE}" in refused.stderr
    other = run("--i-will-change", "shop")
    assert (other.returncode, "the URL's database is" in other.stderr) == (2, True)
    reading = run("--set", "replay.read_only=true")
    assert reading.returncode == 0, reading.stderr
    allowed = run("--i-will-change", TEMPLATE)
    assert allowed.returncode == 0, allowed.stderr
    (result,) = json.loads(allowed.stdout)["steps"]
    assert result["status"] == "done"
    assert {one["kind"] for one in result["replayed"]} == {"begin", "update", "commit"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_ran(server, source, tmp_path, number):
    """Exit 130, and the result has what was answered by then."""
    capture = Capture().session(1, application="long")
    for turn in range(6000):
        capture.runs(1, turn / 100, "SELECT 1")
    path = str(capture.write(tmp_path / "long.replay"))
    process = subprocess.Popen(
        [sys.executable, "-m", "replayer", "run", path, "--results", str(tmp_path / "results"),
         "--engine", source.render_as_string(hide_password=False), "--i-will-change", TEMPLATE],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    seen = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'long' AND query <> ''"
    with closing(Database(server.engine, server.start())) as database:
        end = time.monotonic() + 60
        while not next(iter(database.query(seen)[0].values())):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < end
            time.sleep(0.1)
    time.sleep(2.5)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)

    assert process.returncode == 130, said
    assert "Traceback" not in said
    (path,) = (tmp_path / "results").glob("*.json")
    run = store.load(path)
    (result,) = run.steps
    assert result.status == "interrupted"
    (one,) = result.replayed
    assert 0 < one.executions < one.planned == 6000
    assert result.facts["replay.whole"] is False


@pytest.fixture
def open_folder():
    """Return a folder in which everybody can write."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture
def dump(server, source):
    """Return a function that dumps the source in a format."""
    command = [
        server.programs.folder / "pg_dump",
        "-h",
        str(source.query["host"]),
        "-U",
        "postgres",
    ]

    def make(dumped, path):
        subprocess.run([*command, f"--format={dumped}", "-f", path, TEMPLATE], check=True)
        return str(path)

    return make


@pytest.mark.parametrize("dumped", ["plain", "custom", "tar"])
def test_a_dump_is_what_each_repeat_begins_from(replay, rows, dump, tmp_path, dumped):
    """Twice the same replay ends in the same state; the server's user may not open the dump."""
    path = dump(dumped, tmp_path / f"dump.{dumped}")
    for _ in range(2):
        replay(transfers(2, 5), restore=path)
        assert rows("SELECT sum(balance), count(*) FROM account") == [(2000, 20)]


def test_a_dump_in_a_folder_is_loaded_where_the_servers_user_can_enter_it(
    replay, rows, dump, open_folder, server
):
    """Open to all it is what a replay begins from; closed, a sentence says who cannot enter it."""
    path = dump("directory", open_folder / "dump")
    if server.programs.user is not None:
        with pytest.raises(Impossible, match=rf"{server.programs.user.name}, .* cannot enter"):
            replay(transfers(2, 5), restore=path)
    for each in (Path(path), *Path(path).iterdir()):
        each.chmod(0o755)

    replay(transfers(2, 5), restore=path)

    assert rows("SELECT sum(balance), count(*) FROM account") == [(2000, 20)]


def test_a_dump_runs_nothing_as_root(replay, tmp_path, open_folder, server):
    """A command in it is run by the server's user, though only replayer can open the dump."""
    path = tmp_path / "hostile.sql"
    path.write_text(f"\\! id -u > {open_folder}/uid\nSELECT 1;\n")
    path.chmod(0o600)

    replay(Capture().session(1).runs(1, 0.1, "SELECT 1").leaves(1, 1), restore=str(path))

    uid = int((open_folder / "uid").read_text())
    assert uid != 0
    assert uid == (server.programs.user.uid if server.programs.user else os.geteuid())


@pytest.mark.parametrize(("name", "sentence"), [("none/x", "no such file"), ("pipe", "no file")])
def test_what_is_no_dump_is_one_sentence(replay, tmp_path, name, sentence):
    """One that is not there is named, and nobody waits for what comes through a pipe."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(Impossible, match=sentence):
        replay(transfers(1, 1), restore=str(tmp_path / name))


def test_files_that_are_no_captures_are_one_sentence(replay, tmp_path):
    """None at all, one that is not there, one that is something else."""
    (tmp_path / "x.replay").write_bytes(b"SELECT 1")
    for name in ("x", "y"):
        with pytest.raises(Impossible):
            replay(str(tmp_path / f"{name}.replay"))
    with pytest.raises(Impossible, match="needs the key file"):
        replay("")


def test_commit_order_needs_a_connection_for_each_session(replay):
    """Transactions that wait for each other cannot share one: it is refused before anything ran."""
    with pytest.raises(Impossible, match="each needs a connection"):
        replay(transfers(4, 2), order="commit", sessions=2)


@pytest.mark.slow
def test_a_server_that_crashes_and_comes_back_is_survived(replay, server):
    """All sessions are lost at once, connect again, and go on; both is counted."""
    capture = Capture()
    for number in range(1, 5):
        capture.session(number, application="victim")
        for turn in range(120):
            capture.runs(number, 0.1 + turn / 20 + number / 1000, "SELECT 1")
    find = "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim' LIMIT 1"

    def kill():
        end = time.monotonic() + 60
        with closing(Database(server.engine, server.start())) as database:
            while time.monotonic() < end:
                if found := database.query(find):
                    time.sleep(1)
                    os.kill(found[0]["pid"], signal.SIGKILL)
                    return
                time.sleep(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    outcome = replay(capture, speed=1)
    thread.join()

    assert outcome.facts["replay.sessions_lost"] >= 4
    assert value(outcome, "replay.ran") > 95
    (one,) = outcome.replayed
    assert set(one.errors) <= {"57P02", "08006"}
    assert sum(one.errors.values()) <= 8
    assert any("lost its connection" in note for note in outcome.notes)


@pytest.mark.slow
def test_a_server_that_goes_silent_ends_the_replay_and_what_ran_is_kept(server, source, tmp_path):
    """In one sentence, within the time in which silence is noticed, and a little."""
    capture = Capture().session(1, application="stopped")
    for turn in range(6000):
        capture.runs(1, turn / 50, "SELECT 1")
    path = str(capture.write(tmp_path / "a.replay"))
    # In a process of its own: nothing is asked any more of a server that was silent.
    process = subprocess.Popen(
        [sys.executable, "-m", "replayer", "run", path, "--engine",
         source.set(database="postgres").render_as_string(hide_password=False),
         "--results", str(tmp_path / "results"), f"--set=replay.restore={TEMPLATE}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    find = "SELECT pid FROM pg_stat_activity WHERE application_name = 'stopped'"
    with closing(Database(server.engine, server.start())) as database:
        while not database.query(find):
            time.sleep(0.05)
            assert process.poll() is None, process.communicate()
    time.sleep(4)
    halted = server.pids()
    try:
        # The first of them is the one that would start others.
        halt(halted)
        began = time.monotonic()
        _, errors = process.communicate(timeout=90)
        lasted = time.monotonic() - began
    finally:
        process.kill()
        go_on(halted)

    assert lasted < 40
    assert process.returncode == 1, errors
    assert "Traceback" not in errors
    (result_path,) = (tmp_path / "results").glob("*.json")
    run = store.load(result_path)
    (result,) = run.steps
    assert result.status == "failed"
    assert "went silent" in result.reason
    assert "\n" not in result.reason
    (one,) = result.replayed
    assert 50 < one.executions < one.planned == 6000
    assert result.facts["replay.whole"] is False


CERTIFICATE = ["openssl", "req", "-new", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_over_tls_the_same_ends_the_same(surroundings, tmp_path, postgres15):
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
        capture.runs(1, 5.3, "COPY account FROM STDIN").runs(1, 5.4, "COPY account TO STDOUT")
        capture.runs(1, 5.5, "SELECT id FROM account ORDER BY id").runs(1, 5.6, "TRUNCATE account")
        path = str(capture.write(tmp_path / "a.replay"))
        source.restart(
            f"listen_addresses = '127.0.0.1'\nport = {port}\nssl = on\n"
            f"ssl_cert_file = '{source.folder}/crt'\nssl_key_file = '{source.folder}/key'\n"
        )
        for mode in ("disable", "require"):
            url = f"postgresql://postgres@127.0.0.1:{port}/shop?sslmode={mode}"
            with open_server(engines.of_url(url), url=url) as there:
                spec = {"step": "replay", "file": path, "speed": 0, "verify": "hash"}
                spec["i_will_change"] = "shop"
                outcomes.append(performed(step, Spec.model_validate(spec), surroundings(there)))
    plain, encrypted = (
        {(one.text, one.rows, one.rows_hash, str(one.errors)) for one in outcome.replayed}
        for outcome in outcomes
    )
    assert plain == encrypted
    assert value(outcomes[1], "replay.ran") == 100


@pytest.mark.slow
def test_a_replay_is_held_against_another_run(server, source, tmp_path):
    """Equal data diverge in nothing; a changed row in exactly the fingerprint that reads it."""
    capture = Capture().session(1)
    for number in range(1, 11):
        capture.runs(1, number / 100, f"SELECT balance FROM account WHERE id = {number}")
    capture.runs(1, 0.5, "SELECT name FROM other.place").runs(1, 0.6, "SELECT now(), random()")
    path = str(capture.write(tmp_path / "a.replay"))
    results = tmp_path / "results"

    def run(*more):
        words = [f"--set=replay.{key}" for key in ("speed=0", f"restore={TEMPLATE}", *more)]
        done = subprocess.run(
            [sys.executable, "-m", "replayer", "run", path, "--engine",
             source.set(database="postgres").render_as_string(hide_password=False), "--json",
             "--results", str(results), "--set=replay.verify=hash", *words],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (result,) = json.loads(done.stdout)["steps"]
        return result

    run()
    (control,) = results.glob("*.json")
    same = run(f"against={control}")
    with closing(Database(server.engine, source, first=())) as database:
        database.query("UPDATE account SET balance = 101 WHERE id = 7")
    changed = run(f"against={control}")

    assert same["facts"]["replay.divergences.run"] == 0
    assert {row["what"] for row in same["tables"]["divergences"]} == {"varying"}
    (row,) = [row for row in changed["tables"]["divergences"] if row["what"] != "varying"]
    assert (row["what"], changed["facts"]["replay.divergences.run"]) == ("answers", 1)
    assert "balance" in row["text"]
    shown = subprocess.run(
        [sys.executable, "-m", "replayer", "show", str(control)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert "statements ran" in shown.stdout
