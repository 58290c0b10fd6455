"""DuckDB: one file, its own buffer manager, threads for each statement."""

from __future__ import annotations

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

PACKAGE = "duckdb"
EXTRA = "duckdb"
_FILE = "replayer.duckdb"
_KINDS = {
    "BOOLEAN": BOOLEAN, "TINYINT": INTEGER, "SMALLINT": INTEGER, "INTEGER": INTEGER,
    "BIGINT": INTEGER, "UTINYINT": INTEGER, "USMALLINT": INTEGER, "UINTEGER": INTEGER,
    "FLOAT": REAL, "DOUBLE": REAL, "TIMESTAMP": TIME, "HUGEINT": NUMERIC, "UBIGINT": NUMERIC,
}  # fmt: skip
"""DuckDB's types; DECIMAL(p,s) is NUMERIC, every other one is shown as text."""


def load() -> None:
    """Import DuckDB, and execute a query in memory, so that modules used later are loaded, too."""
    with lazy_import.load("duckdb").connect(":memory:") as connection:
        connection.execute("SELECT 1, 1.5, TIMESTAMP '2000-01-01'").fetchall()


def open(data: Path, settings: Mapping[str, str]) -> OpenGuest:  # noqa: A001 - as the face names it
    """Open the database file in the folder `data`, or make it, with these settings."""
    return _File(lazy_import.load("duckdb").connect(str(data / _FILE), config=dict(settings)))


class _File:
    """The open database file."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def connect(self) -> GuestSession:
        """Return a new connection to the same file."""
        return _Session(self._connection.cursor())

    def close(self) -> None:
        """Close the file; DuckDB first writes its write-ahead log into the file."""
        self._connection.close()


class _Session:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str) -> GuestRows:
        """Execute a statement; return its result, without columns if it has no result set."""
        done = self._connection.execute(statement)
        columns = [GuestColumn(one[0], _kind(str(one[1]))) for one in (done.description or ())]
        rows = done.fetchall() if columns else ()
        return GuestRows(columns, [[show_cell(cell) for cell in row] for row in rows])

    def interrupt(self) -> None:
        """Ask the statement that the session executes in another thread to end."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection; a transaction that is open is rolled back."""
        self._connection.close()


def _kind(name: str) -> int:
    return NUMERIC if name.startswith("DECIMAL") else _KINDS.get(name, TEXT)
