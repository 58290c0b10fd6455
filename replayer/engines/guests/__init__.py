"""Guests: engines that are a library in a process, one file each, found by name.

`replayer.engines.inprocess` runs a guest as a server.  Only that server process loads the library,
so a guest's module imports the library inside its functions.  A guest gets SQL as text and returns
rows of text.  A guest of the user's own lies in `guests/` of a folder in $REPLAYER_SCHEMAS.
"""

from __future__ import annotations

import importlib.metadata
from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from replayer import registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

KIND = "engines.guests"
INTEGER, REAL, TEXT, BOOLEAN, TIME, NUMERIC = 20, 701, 25, 16, 1114, 1700
"""PostgreSQL's numbers of the types that a row's cells have: bigint, float8, text, bool, timestamp
and numeric."""


class GuestColumn(NamedTuple):
    """A column of a statement's result."""

    name: str
    kind: int
    """One of INTEGER, REAL, TEXT, BOOLEAN, TIME and NUMERIC."""


class GuestRows(NamedTuple):
    """The result of one statement: its columns, and its rows with cells as text.

    `columns` is empty if the statement has no result set.  A query without rows still has columns.
    """

    columns: Sequence[GuestColumn] = ()
    rows: Sequence[Sequence[str | None]] = ()


def show_cell(cell: object) -> str | None:
    """Return the text of a value in the form that PostgreSQL sends; None for NULL."""
    if cell is None:
        return None
    return ("t" if cell else "f") if isinstance(cell, bool) else str(cell)


class GuestSession(Protocol):
    """A session of the library; one thread uses it, but any thread may call `interrupt`."""

    def execute(self, statement: str) -> GuestRows:
        """Execute one statement without parameters; raise the library's error if it fails."""
        ...

    def interrupt(self) -> None:
        """Ask a statement that runs in another thread to end."""
        ...

    def close(self) -> None:
        """End the session; what it has not committed is undone."""
        ...


class OpenGuest(Protocol):
    """The database library after it has opened its data; it makes sessions."""

    def connect(self) -> GuestSession:
        """Return a new session on the opened data."""
        ...

    def close(self) -> None:
        """Close the data; on return, the library has written all of it to the operating system."""
        ...


class Guest(Protocol):
    """The interface of a guest's module; a guest is an engine that is a library in a process."""

    PACKAGE: str = ""
    """The pip package whose version is the engine's; "" if the guest has its own `get_version`."""
    EXTRA: str = ""
    """The extra of replayer that installs the library; "" if pip has to install PACKAGE."""

    def get_version(self) -> str:
        """Return the library's version, which begins with its major number.

        Raises ImportError if the library is not installed.
        """
        return importlib.metadata.version(self.PACKAGE)

    @abstractmethod
    def load(self) -> None:
        """Load the whole library: later the process may not have the right to read its files."""

    @abstractmethod
    def open(self, data: Path, settings: Mapping[str, str]) -> OpenGuest:
        """Open the data in the folder `data`, or make it; raise the library's error if that fails.

        `settings` are the library's settings for all sessions.
        """


FACE = Guest


def load(name: str) -> Guest:
    """Return the guest (an engine that is a library) of that name.

    The guest's module is imported, but not the database library: `Guest.load` does that.  Raises
    NotFound if there is no such guest, Impossible if its module lacks a member.
    """
    return cast("Guest", registry.plugin(KIND, name))
