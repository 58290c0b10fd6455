"""Wires and guests of the user's own: the files of docs/extending.md in a folder, as they stand."""

import importlib
import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replayer import registry
from replayer.engines import driver, wires
from replayer.engines import engine as engines
from replayer.engines.connection import Database, connector_of
from replayer.errors import Impossible, Skip
from replayer.run.checks.prove import hash_of
from replayer.servers import programs
from replayer.servers.open import open_server
from replayer.steps.replay import replay_target
from replayer.steps.replay.spec import Spec
from tests import documents
from tests.command import Replayer
from tests.expected_rows import expected_rows

EXTENDING = documents.ROOT / "docs" / "extending.md"
SMALL = """
description = "a small table"
[[step]]
step = "build"
rows = "6144"
[[step]]
step = "flush"
[[step]]
step = "walk"
[[step]]
step = "scan"
"""
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of engines with every file that docs/extending.md shows."""
    for name, text in documents.files_shown(EXTENDING).items():
        path = tmp_path / name.removeprefix("~/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("REPLAYER_SCHEMAS", str(tmp_path / "engines"))
    return tmp_path / "engines"


@pytest.mark.slow
def test_a_library_by_the_document_alone_has_the_rows_of_every_engine(
    own: Path, server_home: Path, replayer: Replayer
) -> None:
    """Each verb on 6,144 rows, the sha256 of 98,304; then a table is built, flushed and read."""
    data, proof = server_home / "sqlite", own / "proof.md"

    replayer("check", "--prove", "--engine", "sqlite", "--data-dir", data, "--out", proof)

    assert hash_of(expected_rows(14)) in proof.read_text()
    (own / "small.toml").write_text(SMALL)
    words = ("--engine", "sqlite", "--data-dir", data, "--json")
    run = json.loads(replayer("run", own / "small.toml", *words).out)
    assert [step["status"] for step in run["steps"]] == ["done"] * 4
    assert run["engine"]["name"] == "sqlite"


@pytest.mark.slow
def test_a_wire_by_the_document_alone_is_the_one_that_is_used(own: Path, server_home: Path) -> None:
    """An engine next to it names it, and is connected by it."""
    del own
    assert registry.about("engines.wires", "literal").startswith("PostgreSQL's protocol")
    assert engines.load("postgres-literal").spec.wire == wires.load("literal").SCHEME

    with (
        open_server(engines.checked("postgres-literal"), data_dir=server_home / "own") as server,
        closing(Database(server.engine, server.start())) as database,
    ):
        assert database.query("SELECT 1 AS one WHERE :a = 'a'", {"a": "a"})


def test_a_wire_without_what_a_replay_needs_replays_no_capture(own: Path) -> None:
    """It says so before the server is started, of which this test has none."""
    del own
    context: Any = SimpleNamespace(engine=engines.load("postgres-literal"))

    with pytest.raises(Skip, match=r"its wire postgresql\+literal replays no capture"):
        replay_target.check(Spec.model_validate({"step": "replay", "file": "any"}), context)


PLAIN = """
import importlib
from replayer.engines.wires.postgres.wire import get_descriptor, get_password, get_process, ping
SCHEME, DRIVER = "postgresql+plain", "psycopg"
DIALECT = "sqlalchemy.dialects.postgresql.psycopg:PGDialect_psycopg"
def open_connection(arguments):
    psycopg = importlib.import_module(DRIVER)
    class Cursor(psycopg.Cursor):
        def __enter__(self):
            raise TypeError("a cursor is not a context manager")
    class Connection(psycopg.Connection):
        def close(self):
            psycopg.Cursor(self).execute("SELECT 1")
            super().close()
    return Connection.connect(**{**arguments, "cursor_factory": Cursor})
"""
"""A driver of DBAPI and nothing more, which says goodbye to its server, as pg8000 does."""


@pytest.mark.slow
def test_a_driver_needs_no_more_than_dbapi_has(own: Path, server_home: Path) -> None:
    """Its cursors are in no `with`, and it raises an error if its lost connection is closed."""
    (own / "wires" / "plain.py").write_text(PLAIN)
    text = (own / "postgres-literal" / "engine.toml").read_text()
    (own / "postgres-literal" / "engine.toml").write_text(text.replace("+literal", "+plain"))

    with open_server(engines.checked("postgres-literal"), data_dir=server_home / "own") as server:
        connector = connector_of(server.start())
        with closing(driver.connect(connector)) as connection:
            assert driver.answers(connector.wire, connection, 10)
        other = driver.connect(connector)
        driver.end(connector.wire, other)


def test_a_driver_with_another_form_of_parameters_is_named(own: Path) -> None:
    """SQLite's has `?`: replayer's statements would fail one by one, each for its own reason."""
    text = (own / "wires" / "literal.py").read_text()
    opened = text.replace('DRIVER = "psycopg"', 'DRIVER = "sqlite3"')
    opened = re.sub(r"return psycopg.*", 'return psycopg.connect(":memory:")', opened)
    (own / "wires" / "question.py").write_text(opened)

    with pytest.raises(Impossible, match=r"wire question: its driver sqlite3 .* form qmark"):
        driver.connect(driver.Connector("question", {}))


def _write(path: Path) -> None:
    path.chmod(0o777)


def _give(path: Path) -> None:
    os.chown(path, 65534, -1)


def _link(path: Path) -> None:
    path.symlink_to(path.rename(path.with_suffix(".real")))


@pytest.mark.parametrize(
    ("change", "name", "reason"),
    [
        pytest.param(_write, "", "can be written by others", marks=ROOT_ONLY),
        (_write, "guests", "can be written by others"),
        (_write, "guests/sqlite.py", "can be written by others"),
        pytest.param(_give, "", "belongs to", marks=ROOT_ONLY),
        pytest.param(_give, "guests", "belongs to", marks=ROOT_ONLY),
        pytest.param(_give, "guests/sqlite.py", "belongs to", marks=ROOT_ONLY),
        pytest.param(_link, "guests/sqlite.py", "is a link", marks=ROOT_ONLY),
    ],
)
def test_code_that_others_can_change_is_not_loaded(
    own: Path, change: Callable[[Path], None], name: str, reason: str
) -> None:
    """Neither the file nor a folder above it; what is wrong is named, and nothing is executed."""
    (own / "guests" / "sqlite.py").write_text("raise SystemExit")
    change(own / name)

    with pytest.raises(Impossible, match=f"{re.escape(str(own / name))} {reason}"):
        registry.load("engines.guests", "sqlite")


def forget_broken() -> None:
    """Have the guest `broken` loaded anew."""
    sys.modules.pop("replayer.engines.guests.broken", None)
    registry.plugin.cache_clear()
    importlib.invalidate_caches()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nothing_of_that_name", r"guests/broken\.py: ModuleNotFoundError: No module"),
        ("def (", r"guests/broken\.py: SyntaxError"),
        ("LOAD = 1", r"guests/broken\.py: guest broken has no load and no open"),
    ],
)
def test_an_error_in_a_users_own_code_names_the_file(own: Path, code: str, reason: str) -> None:
    """One sentence, and no traceback."""
    (own / "guests" / "broken.py").write_text(code)
    forget_broken()

    with pytest.raises(Impossible, match=reason):
        registry.plugin("engines.guests", "broken")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("", "no PACKAGE and no get_version"),
        ("PACKAGE = 'nothing-of-that-name'", "not installed: pip install nothing-of-that-name"),
        ("def get_version(): return 'new'", "says 'new', which is not a version"),
    ],
)
def test_a_guest_without_a_version_is_refused(own: Path, code: str, reason: str) -> None:
    """What it must have is said, or what is to be installed."""
    (own / "guests" / "broken.py").write_text(
        f"def load(): ...\ndef open(data, settings): ...\n{code}"
    )
    (own / "sqlite" / "engine.toml").write_text('like = "duckdb"\n[server]\nguest = "broken"')
    forget_broken()

    with pytest.raises(Impossible, match=reason):
        programs.find("Broken", engines.load("sqlite").spec.server)
