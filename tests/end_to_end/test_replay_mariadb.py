"""Captures of MySQL's language replayed on MariaDB: packets, errors, transactions, hashes."""

import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import Impossible
from replayer.servers.open import open_server
from replayer.steps.replay import step
from replayer.steps.replay.spec import Spec
from tests.captured import Capture
from tests.performed import performed

# PyMySQL leaves the socket of a refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

DUMP = """
CREATE TABLE account (id int PRIMARY KEY, balance bigint);
INSERT INTO account SELECT seq, 100 FROM seq_1_to_20;
"""


@pytest.fixture(scope="module")
def mariadb(mariadbd):
    """Start MariaDB once for these tests."""
    del mariadbd
    folder = Path(tempfile.mkdtemp(prefix="replayer-mariadb-", dir="/tmp"))
    folder.chmod(0o755)
    with open_server(engines.load("mariadb"), data_dir=folder / "data") as server:
        server.start()
        yield server
    shutil.rmtree(folder)


@pytest.fixture
def replay(mariadb, surroundings, tmp_path):
    """Return a function that replays a capture from the dump's state, and what it found."""
    (tmp_path / "dump.sql").write_text(DUMP)
    context = surroundings(mariadb)

    def run(capture, **keys):
        path = str(capture.write(tmp_path / "a.replay", "mariadb"))
        keys.setdefault("restore", str(tmp_path / "dump.sql"))
        asked = {"step": "replay", "file": path, "speed": 0, **keys}
        return performed(step, Spec.model_validate(asked), context)

    return run


@pytest.fixture
def rows(mariadb):
    """Return a function that asks the database that was replayed into."""

    def ask(statement):
        url = mariadb.start().set(database="replayer_replay")
        with closing(Database(mariadb.engine, url, first=())) as database:
            return [tuple(row.values()) for row in database.query(statement)]

    return ask


def value(outcome, metric):
    """Return a measurement."""
    return next(m.value for m in outcome.measurements if m.metric == metric)


@pytest.mark.parametrize("speed", [0, 2])
def test_transactions_end_as_they_did(replay, rows, speed):
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


def test_errors_large_answers_and_hashes(replay):
    """Packets across reads, errors by SQLSTATE, the same rows with the same hash."""
    capture = Capture().session(1)
    capture.runs(1, 0.1, "INSERT INTO account VALUES (1, 1)").runs(1, 0.2, "SELEC 1")
    capture.runs(1, 0.3, "SELECT REPEAT('y', 1000) FROM seq_1_to_20000")
    capture.runs(1, 0.4, f"SELECT LENGTH('{'x' * 3_000_000}')").runs(1, 0.5, "SELECT 2")
    first, second = replay(capture, verify="hash"), replay(capture, verify="hash")

    errors = [one.errors for one in first.replayed if one.errors]
    assert sorted(code for one in errors for code in one) == ["23000", "42000"]
    assert sum(one.rows for one in first.replayed) == 20_002
    assert value(first, "replay.ran") == 100

    def hashes(outcome):
        return {(one.text, one.rows_hash) for one in outcome.replayed}

    assert hashes(first) == hashes(second)


def test_commit_order_ends_in_the_same_state(replay, rows):
    """Updates that do not commute happen as they did."""
    capture, expected = Capture(), 100
    for number in range(1, 9):
        capture.session(number)
    for turn in range(80):
        expected = (expected * 3 + turn) % 1_000_003
        text = f"UPDATE account SET balance = (balance * 3 + {turn}) % 1000003 WHERE id = 1"
        capture.runs(1 + turn * 5 % 8, 0.1 + turn / 100, text)
    outcome = replay(capture, order="commit")

    assert rows("SELECT balance FROM account WHERE id = 1") == [(expected,)]
    assert outcome.facts["replay.order_timeouts"] == 0


def test_rows_are_held_against_those_of_the_log(replay):
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
    assert 0.3 < row["first_s"] < 1
    by_kind = {one.text.split()[0].upper(): one for one in outcome.replayed if one.held_rows == 0}
    assert by_kind["SELECT"].rows_follow == 1
    assert outcome.facts["replay.divergences.log"] == 1
    assert any("only after something" in note for note in outcome.notes)


def test_a_capture_of_another_language_is_refused(mariadb, surroundings, tmp_path):
    """One sentence, before anything is done."""
    path = Capture().session(1).runs(1, 0.1, "SELECT 1").write(tmp_path / "p.replay")
    spec = Spec.model_validate({"step": "replay", "file": str(path)})
    with pytest.raises(Impossible, match="captured on postgres"):
        step.run(spec, surroundings(mariadb))


def test_a_dump_runs_nothing_as_root(replay, mariadb, tmp_path):
    """A command in it is run by the server's user, though only replayer can open the dump."""
    capture = Capture().session(1).runs(1, 0.1, "SELECT 1").leaves(1, 1)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        path = tmp_path / "hostile.sql"
        path.write_text(f"\\! id -u > {folder}/uid\nSELECT 1;\n")
        path.chmod(0o600)
        replay(capture, restore=str(path))
        uid = int((Path(folder) / "uid").read_text())

    assert uid != 0
    assert uid == (mariadb.programs.user.uid if mariadb.programs.user else os.geteuid())
