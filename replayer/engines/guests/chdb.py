"""ClickHouse as a library: column files of parts, read through the page cache."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from replayer import lazy_import
from replayer.engines.guests import (
    BOOLEAN,
    INTEGER,
    NUMERIC,
    REAL,
    TEXT,
    TIME,
    GuestColumn,
    GuestRows,
    show_cell,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from replayer.engines.guests import GuestSession, OpenGuest

PACKAGE = "chdb-core"
EXTRA = "clickhouse"
_FORMAT = "JSONCompactEachRowWithNamesAndTypes"
_KINDS = {
    "Bool": BOOLEAN, "Int": INTEGER, "UInt": INTEGER, "Float": REAL, "DateTime": TIME,
    "Decimal": NUMERIC,
}  # fmt: skip
"""The beginnings of the names of ClickHouse's types; every other type is shown as text."""
_LATE = ("datetime", "decimal", "ipaddress", "numbers", "uuid", "zoneinfo")
"""Modules that the library imports when it opens a folder."""
_FOLDER = "clickhouse"


def load() -> None:
    """Import chdb, and execute a query in memory, so that modules used later are loaded, too."""
    for name in _LATE:
        lazy_import.load(name)
    lazy_import.load("chdb").query("SELECT 1, 1.5, now64(6)", _FORMAT)


def open(data: Path, settings: Mapping[str, str]) -> OpenGuest:  # noqa: A001 - as the face names it
    """Open or make data in a subfolder of `data`; sessions begin with these settings."""
    return _Folder(str(data / _FOLDER), settings)


class _Folder:
    """The opened data of the library; one connection stays open, so that the data stay open."""

    def __init__(self, path: str, settings: Mapping[str, str]) -> None:
        self._path = path
        self._settings = settings
        self._first = self.connect()

    def connect(self) -> GuestSession:
        """Return a session with its own connection: sessions work at the same time."""
        session = _Session(lazy_import.load("chdb").connect(self._path))
        for name, value in self._settings.items():
            session.execute(f"SET {name} = '{value}'")
        return session

    def close(self) -> None:
        """Close the connection that kept the data open, so that the library closes them."""
        self._first.close()


class _Session:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str) -> GuestRows:
        """Execute a statement; return its result, without columns if it has no result set."""
        lines = self._connection.query(statement, _FORMAT).bytes().decode().splitlines()
        if len(lines) < 2:
            return GuestRows()
        names, types, *rows = map(json.loads, lines)
        kinds = [_kind(one) for one in types]
        return GuestRows(
            [GuestColumn(*both) for both in zip(names, kinds, strict=True)],
            [[show_cell(cell) for cell in row] for row in rows],
        )

    def interrupt(self) -> None:
        """Do nothing: the library has no way to end a statement of another thread."""

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _kind(name: str) -> int:
    inner = name.removeprefix("LowCardinality(").removeprefix("Nullable(")
    return next((kind for begin, kind in _KINDS.items() if inner.startswith(begin)), TEXT)
