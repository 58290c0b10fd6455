"""Wires and guests of the user's own: the files of docs/extending.md in a folder, as they stand."""

import importlib
import json
import os
import re
import socketserver
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from replayer import own_plugins, registry
from replayer.engines import driver, guests, wires
from replayer.engines import engine as engines
from replayer.engines.connection import Database, connector_of, url_of
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError, Skip
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
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder of engines with every file that docs/extending.md shows."""
    for name, text in documents.files_shown(EXTENDING).items():
        path = tmp_path / name.removeprefix("~/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("REPLAYER_SCHEMAS", str(tmp_path / "engines"))
    _forget_plugins()
    yield tmp_path / "engines"
    _forget_plugins()
    # A folder without __init__.py has no __file__.
    loaded = [n for n, one in sys.modules.items() if f"{tmp_path}/" in _place_of(one)]
    for name in loaded:
        del sys.modules[name]
    for package in (guests, wires):
        package.__path__[:] = [one for one in package.__path__ if f"{tmp_path}/" not in one]


def _forget_plugins() -> None:
    registry.plugin.cache_clear()
    registry.about.cache_clear()


def _place_of(module: ModuleType) -> str:
    return str(vars(module).get("__file__") or [*vars(module).get("__path__", ())])


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


def test_what_is_no_plug_in_is_none(own: Path) -> None:
    """A folder without the main file, such as one of functions that two wires share, and others."""
    before = registry.names("engines.wires")
    (own / "wires" / "shared").mkdir()
    (own / "wires" / "shared" / "__init__.py").touch()
    (own / "wires" / "gone.py").symlink_to(own / "nothing.py")
    (own / "wires" / "folder.py").mkdir()
    (own / "wires" / ".#lock.py").touch()

    assert registry.names("engines.wires") == before


@pytest.mark.parametrize("name", ["inner", "under_", "with_"])
@pytest.mark.parametrize("form", ["{}.py", "{}/wire.py"])
def test_a_wire_is_a_file_or_a_folder_with_its_main_file(own: Path, form: str, name: str) -> None:
    """The folder needs no __init__.py."""
    path = own / "wires" / form.format(name)
    path.parent.mkdir(exist_ok=True)
    (own / "wires" / "literal.py").rename(path)

    assert engines.load("postgres-literal").spec.wire == "postgresql+literal"
    called = "with" if name == "with_" else name
    assert wires.name_of("postgresql+literal") == called
    assert registry.about("engines.wires", called).startswith("PostgreSQL's protocol")


@pytest.mark.parametrize("form", ["class.py", "class/wire.py"])
def test_a_wire_whose_name_is_a_keyword_says_how_to_write_it(own: Path, form: str) -> None:
    """It can be listed, and no other wire suffers."""
    path = own / "wires" / form
    path.parent.mkdir(exist_ok=True)
    (own / "wires" / "literal.py").rename(path)

    assert registry.about("engines.wires", "class").startswith("PostgreSQL's protocol")
    assert wires.name_of("postgresql+psycopg") == "postgres"
    with pytest.raises(Impossible, match=rf"{form}: class is a keyword of Python: call it class_"):
        engines.load("postgres-literal")


HIDDEN = "cannot be hidden, as others are made of its parts: give the file another name"


@pytest.mark.parametrize("form", ["postgres.py", "postgres/wire.py", "postgres/__init__.py"])
def test_a_wire_that_cannot_be_hidden_is_refused(own: Path, form: str) -> None:
    """Other wires are made of its parts: neither of the two would be used as its author thinks."""
    path = own / "wires" / form
    path.parent.mkdir(exist_ok=True)
    path.write_text((own / "wires" / "literal.py").read_text())
    (own / "wires" / "literal.py").unlink()
    main = path.with_name("wire.py") if path.name == "__init__.py" else path
    main.write_text(path.read_text())

    assert engines.load("duckdb").wire == "inprocess"
    for name in ("postgres", "postgres-literal"):
        with pytest.raises(Impossible, match=rf"{main}: .*wire postgres {HIDDEN}"):
            engines.load(name)


def test_a_wire_hides_none_that_others_are_made_of(own: Path) -> None:
    """In a new process, also if the first wire to be loaded asks for the one that hides."""
    (own / "wires" / "a.py").write_text((own / "wires" / "literal.py").read_text())
    (own / "wires" / "postgres.py").touch()
    code = """if True:
        from replayer import registry
        for name in ("a", "inprocess"):
            print(registry.load("engines.wires", name).ping)
        registry.load("engines.wires", "postgres")
    """

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert len(done.stdout.splitlines()) == 2
    assert HIDDEN in done.stderr.splitlines()[-1]


def test_the_first_folder_hides_what_is_in_the_next(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of them a plug-in was first loaded from."""
    second = tmp_path / "second" / "guests"
    second.mkdir(parents=True)
    monkeypatch.setenv("REPLAYER_SCHEMAS", f"{own}:{second.parent}")
    (second / "other.py").touch()
    for folder in (second, own / "guests"):
        (folder / "both.py").touch()

    loaded = [registry.load("engines.guests", name) for name in ("sqlite", "other", "both")]
    assert [one.__file__ for one in loaded] == [
        f"{own}/guests/sqlite.py", f"{second}/other.py", f"{own}/guests/both.py"
    ]  # fmt: skip


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
    os.chown(path, 65534, -1, follow_symlinks=False)


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


@ROOT_ONLY
@pytest.mark.parametrize("inner", ["", "parts"])
def test_a_link_to_a_folder_that_others_can_change_is_not_followed(
    own: Path, tmp_path: Path, inner: str
) -> None:
    """Root's own link to root's own folder is, so that a driver may lie in another place."""
    there = tmp_path / "there" / inner
    there.mkdir(parents=True)
    (there / "guest.py").write_text("SHOWN = 1")
    (there / "__init__.py").touch()
    (own / "guests" / "linked").symlink_to(there)

    assert registry.load("engines.guests", "linked").SHOWN == 1
    _give(tmp_path / "there")
    with pytest.raises(Impossible, match=f"code in {own / 'guests'} .*: {tmp_path}/there belongs"):
        registry.load("engines.guests", "linked")


@pytest.mark.parametrize(
    ("change", "name", "reason"),
    [
        (_write, "", "can be written by others"),
        (_write, "postgres-literal", "can be written by others"),
        (_write, "postgres-literal/engine.toml", "can be written by others"),
        (_give, "postgres-literal", "belongs to"),
        (_give, "postgres-literal/engine.toml", "belongs to"),
        (_link, "postgres-literal/engine.toml", "is a link"),
    ],
)
@ROOT_ONLY
def test_root_uses_no_engine_that_others_can_change(
    own: Path, change: Callable[[Path], None], name: str, reason: str
) -> None:
    """Its engine.toml names commands: those of an engine that inherits it, too."""
    (own / "heir").mkdir()
    (own / "heir" / "engine.toml").write_text('like = "postgres-literal"\n')
    assert engines.load("heir").spec.server.init
    change(own / name)

    remedy = "let only yourself" if change is _write else "run replayer as that user, or copy it"
    for one in ("heir", "postgres-literal"):
        with pytest.raises(Impossible, match=f"{re.escape(str(own / name))} {reason}") as raised:
            engines.load(one)
        assert f"the engine in {own}/" in str(raised.value)
        assert remedy in str(raised.value)
    assert engines.load("postgres").spec.server.init


@pytest.mark.parametrize("kind", ["guests", "postgres-literal"])
def test_links_that_only_this_user_can_change_are_followed(
    own: Path, tmp_path: Path, kind: str
) -> None:
    """To a file in another folder, also by a second link, to nothing as Emacs' lock, and back."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "x.sql").touch()
    (there / "again.sql").symlink_to("x.sql")
    (own / kind / "scan.sql").symlink_to("../../there/again.sql")
    (own / kind / ".#engine.toml").symlink_to("someone@host.123:456")
    (own / kind / "loop").symlink_to(".")
    (own / kind / "itself").symlink_to("itself")

    own_plugins.trust(own / kind)


@ROOT_ONLY
@pytest.mark.parametrize(
    ("change", "name", "reason"),
    [
        (_write, "there", "there can be written by others"),
        (_give, "there", "there belongs to"),
        (_write, "there/x.sql", "x.sql can be written by others"),
        (_give, "there/x.sql", "x.sql belongs to"),
        (_link, "there/x.sql", "x.sql is a link"),
        (_write, "between", "between can be written by others"),
        (Path.unlink, "there/x.sql", ""),
    ],
)
def test_a_link_to_a_file_that_others_can_change_is_not_followed(
    own: Path, tmp_path: Path, change: Callable[[Path], None], name: str, reason: str
) -> None:
    """Nor one by way of a folder of theirs, nor one to a missing file that they could make."""
    for folder in ("there", "between"):
        (tmp_path / folder).mkdir()
    (tmp_path / "there" / "x.sql").touch()
    (tmp_path / "between" / "x.sql").symlink_to(tmp_path / "there" / "x.sql")
    (own / "postgres-literal" / "scan.sql").symlink_to("../../between/x.sql")
    own_plugins.trust(own / "postgres-literal")

    change(tmp_path / name)
    if not reason:
        (tmp_path / "there").chmod(0o1777)
        reason = "leads to a missing file, and .*there can be written by others"
    with pytest.raises(Impossible, match=reason):
        own_plugins.trust(own / "postgres-literal")


def forget_broken() -> None:
    """Have the guest `broken` loaded anew."""
    sys.modules.pop("replayer.engines.guests.broken", None)
    registry.plugin.cache_clear()
    importlib.invalidate_caches()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nothing_of_that_name", r"guests/broken\.py: ModuleNotFoundError: No module"),
        ("A = 1\nB = 1 / 0", r"guests/broken\.py: ZeroDivisionError: .*zero \(line 2\)"),
        ("def (", r"guests/broken\.py: SyntaxError"),
        ("import sys\nsys.exit(3)", r"guests/broken\.py: SystemExit: 3 \(line 2\)"),
        ("raise SystemExit", r"guests/broken\.py: SystemExit \(line 1\)"),
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
        ('"""Für SQLite."""'.encode("latin-1"), "SyntaxError: .*encoding"),
        ('"""For SQLite."""'.encode("utf-16"), "SyntaxError: .*encoding"),
        (b'"""For SQLite.', "TokenError: .*EOF"),
        (rb'"For \x SQLite."', "SyntaxError: "),
    ],
)
def test_a_file_that_is_no_python_is_listed_with_the_reason(
    own: Path, replayer: Replayer, code: bytes, reason: str
) -> None:
    """The others are listed as well."""
    (own / "guests" / "broken.py").write_bytes(code)

    listed = replayer("list", "engines.guests", status=2)
    lines = [line.split(maxsplit=1) for line in listed.out.splitlines()]
    assert ["broken", "cannot be used"] in lines
    assert ["sqlite", "SQLite: one file, and a log of what was committed"] in lines
    assert re.search(rf"guests/broken\.py: {reason}", " ".join(listed.err.split()))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ('# coding: latin-1\n"""Für SQLite."""'.encode("latin-1"), "Für SQLite."),
        (b'b"bytes"', ""),
        (b'f"{1}"', ""),
    ],
)
def test_a_docstring_is_what_python_takes_for_one(own: Path, code: bytes, text: str) -> None:
    """Python loads each of these files."""
    (own / "guests" / "broken.py").write_bytes(code)

    assert registry.about("engines.guests", "broken") == text


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("", "no PACKAGE and no get_version"),
        ("PACKAGE = 'nothing-of-that-name'", "not installed: pip install nothing-of-that-name"),
        ("def get_version(): return 'new'", "the version 'new', which is not one"),
        ("def get_version(): return None", "the version None, which is not one"),
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


def test_a_broken_wire_is_in_the_way_of_no_other_engine(own: Path) -> None:
    """Engines that name another work; the one that names it says what its file lacks."""
    path = own / "wires" / "literal.py"
    path.write_text(path.read_text().replace("def open_connection", "def open_conection"))

    assert engines.checked("sqlite").wire == "inprocess"
    assert engines.of_url("postgresql://there/").name == "postgres"
    with pytest.raises(Impossible, match=r"literal\.py: .* did you mean open_connection\?"):
        engines.load("postgres-literal")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("SCHEME = 5", "SCHEME = 5: it must be a text"),
        ("SCHEME = ['a', 'b']", r"SCHEME = \['a', 'b'\]: it must be a text"),
        ("DRIVER = importlib", "DRIVER = <module 'importlib'.*: it must be a text"),
        ("LIMITS = 5", "LIMITS = 5: it must be a mapping"),
        ("ANY_DATABASE = 'no'", "ANY_DATABASE = 'no': it must be True or False"),
    ],
)
def test_a_constant_of_another_type_is_refused(own: Path, line: str, reason: str) -> None:
    """It is in the way of no other wire's engines."""
    path = own / "wires" / "literal.py"
    path.write_text(f"{path.read_text()}\n{line}\n")

    assert engines.load("postgres").wire == "postgresql+psycopg"
    with pytest.raises(Impossible, match=rf"literal\.py: wire literal: {reason}"):
        engines.load("postgres-literal")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("return File(", "File(", "its open returned is 'NoneType', which has no close"),
        ("def interrupt", "def interupt", "connect returned is 'Session', which has no interrupt"),
        ("return GuestRows(columns, ", "return list(", "execute returned is 'list', which has no"),
        ("else str(cell)", "else cell", "a cell is .*, where a text or None belongs"),
        ("[row[n] for", "[row[9] for", r"guests/sqlite\.py: IndexError: .* \(line \d+\)"),
        ("Session(connection)", "Session()", r"guests/sqlite\.py: TypeError: .* \(line \d+\)"),
    ],
)
def test_a_mistake_in_a_library_is_said_in_a_sentence(
    own: Path, server_home: Path, before: str, after: str, reason: str
) -> None:
    """What it returned, or the line of its file: the server does not only hang up."""
    path = own / "guests" / "sqlite.py"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))

    with pytest.raises(ReplayerError, match=reason), _open_sqlite(server_home) as database:
        database.execute(VerbName("version"))


@pytest.mark.slow
def test_a_parameter_that_a_verb_is_not_given_is_named(own: Path, server_home: Path) -> None:
    """A misspelt one, with the right one, and the file."""
    path = own / "sqlite" / "table" / "range.sql"
    path.write_text(path.read_text().replace(":first", ":frist"))

    with _open_sqlite(server_home) as database:
        asked = {"table": "persons1"}
        with pytest.raises(
            ReplayerError, match=r"range\.sql of SQLite: .* :frist - did you.*first"
        ):
            database.execute(VerbName("table/range"), asked, first=1, last=2)


@contextmanager
def _open_sqlite(home: Path) -> Iterator[Database]:
    engine = engines.checked("sqlite")
    with (
        open_server(engine, data_dir=home / "mistaken") as server,
        closing(Database(server.engine, server.start())) as database,
    ):
        yield database


TOY_DRIVER = """
import json, socket
class Error(Exception): pass
class Connection:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=10)
        self.lines = self.socket.makefile("rb")
    def ask(self, text):
        self.socket.sendall(json.dumps(text).encode() + b"\\n")
        answer = json.loads(self.lines.readline())
        if "error" in answer:
            raise Error(answer["error"])
        return answer
    def cursor(self): return Cursor(self)
    def commit(self): pass
    def rollback(self): pass
    def close(self):
        self.lines.close()
        self.socket.close()
class Cursor:
    rowcount = -1
    def __init__(self, connection): self.connection = connection
    def execute(self, text, values=None):
        answer = self.connection.ask(text % {n: f"'{v}'" for n, v in (values or {}).items()})
        self.rows = [tuple(row) for row in answer["rows"]]
        self.description = [(name, *(None,) * 6) for name in answer["columns"]] or None
    def fetchone(self): return self.rows.pop(0) if self.rows else None
    def fetchall(self): return self.rows
    def close(self): pass
"""
TOY_WIRE = """
import importlib
SCHEME, DRIVER = "toy", "toy_driver"
def open_connection(arguments):
    return importlib.import_module(DRIVER).Connection(arguments["host"], arguments["port"])
def get_process(connection): return 0
def get_password(connection): return ""
def get_descriptor(connection): return connection.socket.fileno()
def ping(connection, seconds): return bool(connection.ask("SELECT 1"))
"""


class ToyLines(socketserver.StreamRequestHandler):
    """SQLite behind a port: a line of JSON for each statement and each answer."""

    def handle(self) -> None:
        """Answer until the client closes."""
        with closing(sqlite3.connect(":memory:")) as library:
            for line in self.rfile:
                self.wfile.write(json.dumps(self._answer(library, json.loads(line))).encode())
                self.wfile.write(b"\n")

    def _answer(self, library: sqlite3.Connection, text: str) -> dict[str, object]:
        try:
            done = library.execute(text)
        except sqlite3.Error as error:
            return {"error": str(error)}
        return {"columns": [one[0] for one in done.description or ()], "rows": done.fetchall()}


@pytest.fixture
def toy(own: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve the toy, with an engine and a wire of its own; return its URL."""
    (own / "toy").mkdir()
    (own / "toy" / "engine.toml").write_text(
        'like = "sqlite"\nwire = "toy"\n[server]\nstarts = false\nguest = ""\n'
    )
    (own / "wires" / "toy.py").write_text(TOY_WIRE)
    (own / "toy_driver.py").write_text(TOY_DRIVER)
    monkeypatch.syspath_prepend(str(own))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), ToyLines) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"toy://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def test_a_protocol_of_ones_own_needs_nothing_of_sqlalchemy(toy: str) -> None:
    """What docs/extending.md says of a driver is enough: no dialect, and no more of DBAPI."""
    engine = engines.of_url(toy)

    with closing(Database(engine, url_of(toy, engine))) as database:
        assert database.query("SELECT :a AS a", {"a": "b"}) == [{"a": "b"}]
        with pytest.raises(ReplayerError, match="the database reported: near"):
            database.query("SELEC 1")


def test_a_driver_without_its_own_error_is_named(toy: str, own: Path) -> None:
    """Without the class, no error of the server could be told from one of the driver."""
    path = own / "toy_driver.py"
    path.write_text(path.read_text().replace("Error", "Fault"))
    engine = engines.of_url(toy)

    with pytest.raises(Impossible, match="wire toy: its driver toy_driver has no `Error`"):
        Database(engine, url_of(toy, engine))


def test_a_dialect_that_cannot_be_loaded_is_named(toy: str, own: Path) -> None:
    """With the wire, and that it can be left out."""
    path = own / "wires" / "toy.py"
    path.write_text(path.read_text() + "\nDIALECT = 'toy_driver:Dialekt'\n")
    engine = engines.of_url(toy)

    with pytest.raises(Impossible, match=r"toy:// has DIALECT = 'toy_driver:Dialekt', .* leave it"):
        Database(engine, url_of(toy, engine))
