"""A server that answers what no server would: a sentence, and nothing that steers a terminal."""

import contextlib
import math
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import replayer
from replayer.engines import driver
from replayer.engines import engine as engines
from replayer.engines.connection import Cells, Database, connector_of, url_of
from replayer.errors import ReplayerError
from replayer.servers import protocol, remote

POSTGRES = engines.load("postgres")
COCKROACH = "CockroachDB CCL v25.2.0 (x86_64-pc-linux-gnu, built 2025/05/09, go1.23.7)"
TRUE = "PostgreSQL 18.1 on x86_64-pc-linux-gnu"
NAMES = (
    "version", "major", "ours", "locked", "name", "value", "directory", "file", "content",
    "process", "verb", "what", "allowed", "grants",
)  # fmt: skip
TEXT, INT4, INT8, NUMERIC, JSON, DATE, UUID, INT_ARRAY = 25, 23, 20, 1700, 114, 1082, 2950, 1007


class Server:
    """A server of PostgreSQL's protocol that has one answer to everything but its version."""

    def __init__(self, version: bytes, kind: int, cell: bytes | None, *, rows: int = 1) -> None:
        self._version, self._kind, self._cell, self._rows = version, kind, cell, rows
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"postgresql://me@127.0.0.1:{self._listening.getsockname()[1]}/db"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as file, contextlib.suppress(OSError, struct.error):
            while True:
                length, code = struct.unpack(">II", file.read(8))
                file.read(length - 8)
                if code >> 16 == 3:
                    break
                client.sendall(b"N")
            hello = message(b"R", bytes(4))
            hello += message(b"S", b"server_version\0" + self._version[:40] + b"\0")
            hello += message(b"S", b"client_encoding\0UTF8\0")
            hello += message(b"K", struct.pack(">II", 7, 7)) + message(b"Z", b"I")
            client.sendall(hello)
            asked = b""
            while kind := file.read(1):
                body = file.read(struct.unpack(">I", file.read(4))[0] - 4)
                asked = body if kind in b"QP" else asked
                if kind == b"P":
                    client.sendall(message(b"1", b""))
                elif kind == b"B":
                    client.sendall(message(b"2", b""))
                elif kind == b"D":
                    client.sendall(self._columns(asked))
                elif kind == b"E":
                    client.sendall(self._cells(asked))
                elif kind == b"S":
                    client.sendall(message(b"Z", b"I"))
                elif kind == b"Q":
                    rows = self._columns(asked) + self._cells(asked)
                    client.sendall(rows + message(b"Z", b"I"))

    def _columns(self, asked: bytes) -> bytes:
        names = ("version",) if b"pg_catalog.version()" in asked else NAMES
        kind = TEXT if len(names) == 1 else self._kind
        columns = b"".join(
            name.encode() + b"\0" + struct.pack(">IhIhih", 0, 0, kind, -1, -1, 0) for name in names
        )
        return message(b"T", struct.pack(">h", len(names)) + columns)

    def _cells(self, asked: bytes) -> bytes:
        one = b"pg_catalog.version()" in asked
        cell = self._version if one else self._cell
        data = struct.pack(">i", -1) if cell is None else struct.pack(">i", len(cell)) + cell
        many = 1 if one else len(NAMES)
        row = message(b"D", struct.pack(">h", many) + data * many)
        return row * (1 if one else self._rows) + message(b"C", b"SELECT 1\0")


def message(kind: bytes, body: bytes) -> bytes:
    """Return a message of PostgreSQL's protocol."""
    return kind + struct.pack(">I", len(body) + 4) + body


@contextlib.contextmanager
def serving(
    version: bytes, kind: int = TEXT, cell: bytes | None = b"x", *, rows: int = 1
) -> Iterator[str]:
    """Give the URL of such a server."""
    server = Server(version, kind, cell, rows=rows)
    try:
        yield server.url
    finally:
        server.close()


def facts(url: str) -> None:
    """Ask what `run` asks to store it."""
    with contextlib.closing(Database(POSTGRES, url_of(url, POSTGRES), first=())) as database:
        known = protocol.facts(database, "url", {})
        assert known.version.isprintable()
        assert all(str(one).isprintable() for one in known.facts.values())


def connected(url: str) -> None:
    """Begin as a run does."""
    with remote.connected(POSTGRES, url) as there:
        there.facts()


CALLS: dict[str, Callable[[str], object]] = {
    "connected": connected,
    "facts": facts,
    "identified": lambda url: remote.identified(POSTGRES, url),
    "rights": lambda url: remote.rights(POSTGRES, url),
    "whereabouts": lambda url: remote.whereabouts(POSTGRES, url),
    "worker": lambda url: driver.connect(connector_of(url_of(url, POSTGRES))).close(),
}
VERSIONS = {
    "cockroach": COCKROACH.encode(),
    "escapes": b"Cockroach\x1b[2J\x1b]0;owned\x07DB",
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "long": b"x" * 100_000,
    "number": b"PostgreSQL 99999999999999999999999999",
}
CELLS: dict[str, tuple[int, bytes | None]] = {
    "null": (TEXT, None),
    "escapes": (TEXT, b"\x1b[2J\x1b]0;owned\x07"),
    "no text": (TEXT, b"\xff\xfe"),
    "word as a number": (INT4, b"seventeen"),
    "long number": (INT8, b"9" * 5000),
    "nan": (NUMERIC, b"NaN"),
    "infinity": (NUMERIC, b"Infinity"),
    "fraction": (NUMERIC, b"17.5"),
    "open json": (JSON, b'{"a'),
    "date": (DATE, b"infinity"),
    "uuid": (UUID, b"x"),
    "array": (INT_ARRAY, b"{1,{2"),
}


def tell(call: str, url: str) -> None:
    """Make a call; whatever it raises is one line of a sentence."""
    said = ""
    try:
        CALLS[call](url)
    except ReplayerError as error:
        said = str(error)
    assert said.isprintable(), said
    assert len(said) < 2000


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("version", VERSIONS)
def test_versions_are_checked(version: str, call: str) -> None:
    """A server that says it is anything else, or nothing, or steers a terminal."""
    with serving(VERSIONS[version]) as url:
        tell(call, url)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("cell", CELLS)
def test_cells_are_checked(cell: str, call: str) -> None:
    """A cell of another kind than was asked for, or of none."""
    kind, content = CELLS[cell]
    with serving(TRUE.encode(), kind, content) as url:
        tell(call, url)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("rows", [0, 2])
def test_rows_are_counted(rows: int, call: str) -> None:
    """No row where one is, or two."""
    with serving(TRUE.encode(), INT4, b"180000", rows=rows) as url:
        tell(call, url)


def test_a_row_tells_what_it_lacks() -> None:
    """A column that is not there, and a cell that is not a whole number."""
    row = Cells(
        {"major": 17, "half": 0.5, "word": "x", "nothing": None, "nan": math.nan, "big": math.inf}
    )
    assert row.number("major") == 17
    for name in ("half", "word", "nothing", "nan", "big", "other"):
        with pytest.raises(ReplayerError, match=name):
            row.number(name)
    assert row.number("major") + Cells({"big": 2**53 + 1}).number("big") == 2**53 + 18
    assert row.real("half") == 0.5
    for name in ("word", "nothing", "nan", "big", "other"):
        with pytest.raises(ReplayerError, match=name):
            row.real(name)


def test_a_row_names_its_file_of_sql() -> None:
    """What came instead of a number, as which column, and in the answer to which file."""
    row = Cells({"hits": "many\x1b[31m"}, "counters.sql of PostgreSQL")
    for call in (row.number, row.real, lambda _name: row.reals()):
        with pytest.raises(ReplayerError) as refused:
            call("hits")
        assert str(refused.value).startswith("counters.sql of PostgreSQL: the database answered")
        assert "'hits'" in str(refused.value)
        assert "\x1b" not in str(refused.value)
    assert Cells({"a": 1, "b": None, "kind": "x"}).reals(but=("kind",)) == {"a": 1.0}


def test_no_number_of_a_server_passes_by_that_check() -> None:
    """Whatever module asks a server takes numbers by `number` and `real`."""
    bare = re.compile(r"\b(?:int|float)\((?:row\[|rows\[|(?:self\.)?_?database\.)")
    talking = re.compile(r"import .*\b(?:Database|VerbName)\b")
    of_results = {"changes.py", "needs.py", "replayed.py", "verdict.py"}
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for folder in ("servers", "tables", "load", "capture", "steps", "sizing", "conditions")
        for path in (Path(replayer.__file__).parent / folder).rglob("*.py")
        if path.name not in of_results and talking.search(text := path.read_text())
        for number, line in enumerate(text.splitlines(), 1)
        if bare.search(line)
    ]
    assert found == []
