"""Sessions that send a prepared statement without waiting; the answer is received later.

A wire of engines/wires has a class for it, or none.  This module imports little, because worker
processes load it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from replayer.errors import ReplayerError

_AGAIN = frozenset({"40P01", "40001", "1213", "1205"})
"""Error codes of servers that ask for a retry: deadlock, serialization failure, lock timeout."""


@dataclass(frozen=True, slots=True)
class DriverStatement:
    """One statement on one table, in the form that the driver takes."""

    kind: str
    text: str
    names: tuple[str, ...]
    """Names of its parameters (of PARAMETERS), in order."""
    weight: float
    span: int
    """Number of rows that it touches by an index."""
    burn: float
    """Units of CPU that it burns on each row, on average."""


@dataclass(frozen=True, slots=True)
class Packing:
    """The wire format of a parameter, which is an integer of 8 bytes."""

    order: Literal["<", ">"]
    prefix: bytes = b""
    """Bytes before each parameter."""


class SessionGone(ReplayerError):
    """The server ended a session, or refused its statement."""


class WireSession(Protocol):
    """One connection, with at most one statement under way."""

    packing: Packing

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare the statements; later calls name them by their index."""
        ...

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when data has arrived."""
        ...

    def send(self, place: int, payload: bytes) -> None:
        """Send a statement with its parameters."""
        ...

    def receive(self) -> bool | None:
        """Receive data: True at the answer's end, False before, None if a retry is asked for.

        Raises SessionGone.
        """
        ...

    def execute(self, texts: Sequence[str]) -> None:
        """Execute statements without parameters, one after the other, and wait for each."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def check_refusal(code: str, message: str) -> None:
    """Raise SessionGone for a refused statement, except for a code that allows a retry."""
    if code not in _AGAIN:
        raise SessionGone(f"the database said: {message}")
