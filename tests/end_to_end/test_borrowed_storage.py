"""SingleStore's and ColumnStore's statements on MariaDB's storage: the same rows as everywhere.

No server of either can be had here.  What is theirs alone, the storage clauses and the views of
files and merges, is taken out or replaced; the catalogue and the doubling are executed as they are.
"""

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replayer import assets, journal
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.engines.engine import Engine
from replayer.servers.open import open_server
from replayer.steps.build import step as build
from replayer.steps.build.spec import Spec
from replayer.steps.scan import step as scan
from replayer.tables import persons
from tests.expected_rows import expected_rows
from tests.fixture_types import Surroundings
from tests.performed import performed
from tests.ready_made import copy, ready_data

# PyMySQL leaves the socket of a refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_DOUBLINGS = 9
_ROWS = 6 << _DOUBLINGS
_BORROWED = {
    "columnstore": ("files", "table/bytes", "evict"),
    "singlestore": ("version", "settings", "flush", "counters", "location", "files", "table/bytes"),
}
"""Verbs that ask what only that server can answer, and are MariaDB's here."""
_CASES = [
    ("columnstore", "columnstore", 384),
    ("columnstore", "columnstore", _ROWS),
    ("singlestore", "columnstore", 384),
    ("singlestore", "columnstore", None),
    ("singlestore", "memsql5", None),
]


@pytest.fixture(scope="module")
def socket(server_home: Path, mariadbd: Path) -> Iterator[str]:
    """Start a MariaDB for this file, whose database is another engine's, and return its socket."""
    data = copy(ready_data("mariadb", mariadbd.parent), server_home / "borrowed")
    with open_server(engines.load("mariadb"), data_dir=data, bindir=mariadbd.parent) as server:
        found = server.start().query["unix_socket"]
        assert isinstance(found, str)
        yield found


@pytest.fixture
def borrowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Engine]:
    """Return what makes an engine whose storage is MariaDB's."""

    def make(name: str) -> Engine:
        folder = tmp_path / name
        shutil.copytree(assets.engines()[name], folder)
        maria = assets.engines()["mariadb"]
        if name == "singlestore":
            # It is not like mariadb: what MariaDB's verbs include has to come with them.
            shutil.copytree(maria / "parts", folder / "parts")
        for verb in _BORROWED[name]:
            (folder / f"{verb}.sql").unlink()
            if (maria / f"{verb}.sql").exists():
                text = (maria / f"{verb}.sql").read_text(encoding="utf-8")
                # One table instead of one for each segment.
                text = text.replace("_s[0-9]+", "") if name == "singlestore" else text
                (folder / f"{verb}.sql").write_text(text, encoding="utf-8")
        for path in folder.rglob("*.sql"):
            path.write_text(_on_innodb(path), encoding="utf-8")
        monkeypatch.setenv("REPLAYER_SCHEMAS", str(tmp_path))
        return engines.load(name)

    return make


def _on_innodb(path: Path) -> str:
    text = path.read_text(encoding="utf-8").replace("ENGINE = ColumnStore", "ENGINE = InnoDB")
    text = re.sub(r"(?m)^ *(SORT KEY|KEY \(id\) USING CLUSTERED).*\n", "", text)
    text = text.replace("SHARD KEY (n)", "KEY (n)")
    statements = [part for part in text.split("-- then") if "OR REPLACE PROCEDURE" not in part]
    kept = "-- then".join(statements).replace("CALL replayer_compiled()", "SELECT 1 AS compiled")
    if path.parts[-2:] == ("table", "session.sql"):
        # SingleStore knows this level alone; at InnoDB's own, sessions that read one table and add
        # to it deadlock on the gaps between rows, which are nothing of the statements under test.
        return "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
    if path.parts[-2:] == ("columnstore", "bytes.sql") and "columnstore_files" in kept:
        return "SELECT COUNT(*) AS bytes FROM persons1_s{{segment}}"
    return kept


def _spec(**keys: object) -> Spec:
    return Spec.model_validate({"step": "build", "name": "build", "rows": _ROWS, **keys})


@pytest.mark.slow
@pytest.mark.parametrize("case", _CASES, ids=str)
def test_rows_are_those_of_plain_python(
    socket: str,
    borrowed: Callable[[str], Engine],
    surroundings: Surroundings,
    own_home: Path,
    case: Any,
) -> None:
    """Built twice, over what is there, the rows are right; a scan counts them; a drop ends it."""
    name, layout, segment_rows = case
    engine = borrowed(name)
    spec = _spec(layout=layout, segment_rows=segment_rows, sessions=2)
    with open_server(engine, url=f"{name}://root@localhost/?unix_socket={socket}") as server:
        context = surroundings(server)
        for _ in range(2):
            outcome = performed(build, spec, context)
            with contextlib.closing(Database(server.engine, server.start())) as database:
                rows = database.query("SELECT id, lastname, `time` FROM persons1")
                assert sorted((row["id"], row["lastname"]) for row in rows) == sorted(
                    expected_rows(_DOUBLINGS)
                )
                assert len({row["time"] for row in rows}) == _DOUBLINGS + 1
        assert outcome.facts["layout"] == layout
        counted = performed(scan, scan.Spec(step="scan", name="scan"), context)
        assert {row["rows"] for row in counted.tables["statements"]} == {_ROWS}
        with contextlib.closing(Database(server.engine, server.start())) as database:
            persons.drop(database, layout)
            assert persons.state(database) is None
            left = database.query("SHOW TABLES LIKE 'persons1%'")
            assert left == []
    assert not list(journal.notes())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(_BORROWED))
def test_an_interrupted_doubling_is_taken_back(
    socket: str,
    borrowed: Callable[[str], Engine],
    surroundings: Surroundings,
    own_home: Path,
    name: str,
) -> None:
    """What a doubling that never ended has left is removed, and the build goes on to its end."""
    engine = borrowed(name)
    spec = _spec(layout="columnstore", segment_rows=_ROWS // 2)
    with open_server(engine, url=f"{name}://root@localhost/?unix_socket={socket}") as server:
        context = surroundings(server)
        performed(build, spec, context)
        with contextlib.closing(Database(server.engine, server.start())) as database:
            unended = f"UPDATE persons1_doublings SET `rows` = NULL WHERE doubling = {_DOUBLINGS}"
            database.query(unended)
            outcome = performed(build, spec, context)
            assert "went on after doubling" in " ".join(outcome.notes)
            rows = database.query("SELECT id, lastname FROM persons1")
            assert sorted((row["id"], row["lastname"]) for row in rows) == sorted(
                expected_rows(_DOUBLINGS)
            )
            persons.drop(database, "columnstore")
