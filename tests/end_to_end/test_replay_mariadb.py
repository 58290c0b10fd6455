"""Captures of MySQL's language replayed on MariaDB: packets, errors, transactions, hashes."""

import os
import tempfile
from pathlib import Path

import pytest

from replayer.errors import Impossible
from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server
from replayer.servers.private import PrivateServer
from tests.captured import Capture
from tests.known import known
from tests.replaying import OWN, Ask, Replay, perform_replay, query, value, whole
from tests.server_pool import ServerPool

# PyMySQL leaves the socket of a refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

DUMP = """
CREATE TABLE account (id int PRIMARY KEY, balance bigint);
INSERT INTO account SELECT seq, 100 FROM seq_1_to_20;
"""


@pytest.fixture
def server(mariadbd: Path, server_pool: ServerPool) -> Server:
    """Return a MariaDB."""
    return server_pool("mariadb", bindir=mariadbd.parent)


@pytest.fixture
def replay(context: Context, tmp_path: Path) -> Replay:
    """Return a function that replays a capture from the dump's state, and what it found."""
    (tmp_path / "dump.sql").write_text(DUMP)

    def run(capture: Capture | Path | str, **keys: object) -> Outcome:
        if isinstance(capture, Capture):
            capture = capture.write(tmp_path / "a.replay", "mariadb")
        return perform_replay(context, capture, **{"restore": tmp_path / "dump.sql", **keys})

    return run


@pytest.fixture
def rows(server: Server) -> Ask:
    """Return a function that asks the database that was replayed into."""
    return lambda statement: query(server, statement, database=OWN)


@pytest.mark.parametrize("speed", [0, 2])
def test_transactions_end_as_they_did(replay: Replay, rows: Ask, speed: int) -> None:
    """Statements of several sessions, one of which is rolled back; rows are counted."""
    capture = Capture()
    for number in range(1, 5):
        capture.session(number, connects=number / 1000)
        for turn in range(25):
            at = 0.1 + turn / 50 + number / 5000
            update = f"UPDATE account SET balance = balance + {number} WHERE id = {number}"
            capture.runs(number, at, "BEGIN").runs(number, at + 0.002, update)
            capture.runs(number, at + 0.004, "ROLLBACK" if turn % 5 == 0 else "COMMIT")
        capture.runs(number, 0.9, "SELECT balance FROM account WHERE id <= 10 ORDER BY id")
        capture.leaves(number, 1)
    outcome = replay(capture, speed=speed)

    assert rows("SELECT id, balance FROM account WHERE id < 6 ORDER BY id") == [
        *((number, 100 + 20 * number) for number in range(1, 5)),
        (5, 100),
    ]
    done = {one.kind: (one.executions, one.rows) for one in outcome.replayed}
    assert done["update"] == (100, 100)
    assert done["select"] == (4, 40)
    assert value(outcome, "replay.errors") == 0
    assert outcome.ledger is not None


@pytest.mark.slow
def test_errors_large_answers_and_hashes(replay: Replay) -> None:
    """Packets across reads, errors by SQLSTATE, the same rows with the same hash."""
    capture = Capture().session(1)
    capture.runs(1, 0.1, "INSERT INTO account VALUES (1, 1)").runs(1, 0.2, "SELEC 1")
    capture.runs(1, 0.3, "SELECT REPEAT('y', 1000) FROM seq_1_to_20000")
    capture.runs(1, 0.4, f"SELECT LENGTH('{'x' * 3_000_000}')").runs(1, 0.5, "SELECT 2")
    first, second = replay(capture, verify="hash"), replay(capture, verify="hash")

    errors = [one.errors for one in first.replayed if one.errors]
    assert sorted(code for one in errors for code in one) == ["23000", "42000"]
    assert sum(known(one.rows) for one in first.replayed) == 20_002
    assert value(first, "replay.ran") == 100

    def hashes(outcome: Outcome) -> set[tuple[str, object]]:
        return {(one.text, one.rows_hash) for one in outcome.replayed}

    assert hashes(first) == hashes(second)


def test_a_text_of_several_statements_is_executed_as_a_whole(replay: Replay, rows: Ask) -> None:
    """A client may send them at once; in a replay that only reads, such a text is not sent."""
    text = "UPDATE account SET balance = 1 WHERE id = 1; UPDATE account SET balance = 2 WHERE id=2"
    capture = Capture().session(1).runs(1, 0.1, f"{text}; SELECT 1").runs(1, 0.2, "SELECT 2")
    outcome = replay(capture)

    assert rows("SELECT id, balance FROM account WHERE id < 3 ORDER BY id") == [(1, 1), (2, 2)]
    assert whole(outcome)
    notes = replay(capture, read_only=True).notes
    assert "1 statement was left out: it may write" in notes


def test_users_of_the_server_are_left_alone(replay: Replay, server: Server, rows: Ask) -> None:
    """A session may be in their database, and name their table only."""
    query(server, "CREATE OR REPLACE USER replayed_away", database="mysql")
    capture = Capture().session(1).session(2)
    texts = ("USE mysql", "DELETE FROM global_priv WHERE user = 'replayed_away'", "SELECT 17")
    for turn, text in enumerate((*texts, "CREATE OR REPLACE USER replayed_away", f"USE {OWN}")):
        capture.runs(1, 0.1 + turn / 10, text)
    for number in (1, 2):
        capture.runs(number, 0.8, f"UPDATE account SET balance = 0 WHERE id = {number}")
    before = query(server, "SELECT * FROM mysql.global_priv ORDER BY user")
    outcome = replay(capture)

    assert query(server, "SELECT * FROM mysql.global_priv ORDER BY user") == before
    assert rows("SELECT balance FROM account WHERE id < 3") == [(0,), (0,)]
    assert any("2 statements were left out: it acts" in note for note in outcome.notes)
    assert value(outcome, "replay.errors") == 0


def test_commit_order_ends_in_the_same_state(replay: Replay, rows: Ask) -> None:
    """Updates that do not commute happen as they did."""
    capture, expected = Capture(), 100
    for number in range(1, 9):
        capture.session(number)
    for turn in range(80):
        expected = (expected * 3 + turn) % 1_000_003
        text = f"UPDATE account SET balance = (balance * 3 + {turn}) % 1000003 WHERE id = 1"
        capture.runs(1 + turn * 5 % 8, 0.1 + turn / 100, text)
    outcome = replay(capture, order="commit", order_timeout="10m")

    assert rows("SELECT balance FROM account WHERE id = 1") == [(expected,)]
    assert whole(outcome)


def test_what_lost_a_lock_in_the_source_loses_it_in_its_place(replay: Replay, rows: Ask) -> None:
    """A deadlock undoes a transaction, a wait in vain its statement; neither is run."""
    capture = Capture().session(1).session(2)
    change = "UPDATE account SET balance = balance + 1 WHERE id = "
    for number, code in ((1, "40001"), (2, "HY000")):
        capture.runs(number, 0.1, "BEGIN").runs(number, 0.2 + number / 50, f"{change}{number}")
        capture.runs(number, 0.3, f"{change}5", lasts=1.2, sqlstate=code)
        capture.runs(number, 1.6, "COMMIT")
    outcome = replay(capture, order="commit", order_timeout="10m")

    assert rows("SELECT balance FROM account WHERE id IN (1, 2, 5) ORDER BY id") == [
        (100,),
        (101,),
        (100,),
    ]
    assert outcome.facts["replay.imposed"] == 2
    assert outcome.facts["replay.divergences.log"] == 0


@pytest.mark.parametrize("logged", [True, False])
def test_a_log_without_errors_may_have_run_a_deadlocks_victim(
    replay: Replay, rows: Ask, tmp_path: Path, *, logged: bool
) -> None:
    """It is run as any other statement, which the result says; a log with errors needs no note."""
    capture = Capture().session(1).runs(1, 0.1, "BEGIN")
    capture.runs(1, 0.2, "UPDATE account SET balance = 7 WHERE id = 1").runs(1, 0.3, "COMMIT")
    outcome = replay(capture.write(tmp_path / "b.replay", "mariadb", errors_logged=logged))

    words = " ".join(outcome.notes)
    assert ("does not say which statements failed: the victim of a deadlock" in words) != logged
    assert rows("SELECT balance FROM account WHERE id = 1") == [(7,)]


def test_who_waits_for_those_that_wait_for_its_lock_goes_out_of_turn(
    replay: Replay, rows: Ask
) -> None:
    """One waits here for its turn, the other in the server: neither would ever go on."""
    capture = Capture().session(1).session(2).runs(1, 0.1, "BEGIN")
    change = "UPDATE account SET balance = balance * 2 WHERE id = "
    capture.runs(1, 0.2, f"{change}1").runs(2, 0.3, f"{change}1", lasts=0.1)
    capture.runs(1, 0.6, f"{change}2").runs(1, 0.7, "COMMIT")
    outcome = replay(capture, order="commit", order_timeout="10m")

    assert rows("SELECT balance FROM account WHERE id < 3 ORDER BY id") == [(400,), (200,)]
    assert outcome.facts["replay.out_of_turn"] == 1
    assert whole(outcome)


def test_rows_are_held_against_those_of_the_log(replay: Replay) -> None:
    """The first difference of a transaction is told with its place, and what follows apart."""
    capture = Capture().session(1).session(2)
    read = "SELECT balance FROM account WHERE id = 77"
    capture.runs(1, 0.1, "SELECT balance FROM account WHERE id < 4", rows=3)
    # Found and not changed, which some clients ask for: it is no other answer.
    capture.runs(1, 0.2, "UPDATE account SET balance = 100 WHERE id = 4", rows=1)
    capture.runs(2, 0.3, "BEGIN").runs(2, 0.4, "DELETE FROM account WHERE id = 77", rows=1)
    capture.runs(2, 0.5, read, rows=1).runs(2, 0.6, "COMMIT")
    capture.runs(1, 0.7, "SELECT SLEEP(0)", rows=1).runs(1, 0.8, "DO 1", rows=5)
    outcome = replay(capture, speed=1)

    (row,) = outcome.tables["divergences"]
    assert (row["against"], row["what"], row["ours"], row["theirs"]) == (
        *("log", "rows", "0 rows", "1 rows"),
    )
    assert "DELETE" in row["text"].upper()
    assert (row["answers"], row["session"]) == (1, 2)
    assert row["first_s"] >= 0.4 - 0.1  # when it is due, or later
    by_kind = {one.text.split()[0].upper(): one for one in outcome.replayed if one.held_rows == 0}
    assert by_kind["SELECT"].rows_follow == 1
    assert outcome.facts["replay.divergences.log"] == 1
    assert any("only after something" in note for note in outcome.notes)


def test_a_capture_of_another_language_is_refused(context: Context, tmp_path: Path) -> None:
    """One sentence, before anything is done."""
    path = Capture().session(1).runs(1, 0.1, "SELECT 1").write(tmp_path / "p.replay")
    with pytest.raises(Impossible, match="captured on postgres"):
        perform_replay(context, path)


def test_a_dump_runs_nothing_as_root(replay: Replay, server: PrivateServer, tmp_path: Path) -> None:
    """A command in it is run by the server's user, though only replayer can open the dump."""
    capture = Capture().session(1).runs(1, 0.1, "SELECT 1").leaves(1, 1)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        path = tmp_path / "hostile.sql"
        path.write_text(f"\\! id -u > {folder}/uid\nSELECT 1;\n")
        path.chmod(0o600)
        replay(capture, restore=path)
        uid = int((Path(folder) / "uid").read_text())

    assert uid != 0
    assert uid == (server.programs.user.uid if server.programs.user else os.geteuid())
