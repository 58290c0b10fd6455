"""Connections of measured work: they send without waiting, and the answer is received later.

A wire of engines/wires has classes for them, or none.  This module imports little, because worker
processes load it.
"""

import select
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from replayer.errors import ReplayerError

LOST = "08006"
"""SQLSTATE of a lost connection."""
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


@dataclass(frozen=True, slots=True)
class SessionLogin:
    """The login of a captured session, whose connection a replay makes again."""

    application: str = ""
    settings: Sequence[tuple[str, str]] = field(default=())
    """Settings of the captured session that have valid names."""
    role: str = ""
    """The role that it takes on; "" for none."""
    read_only: bool = False
    timeout: float = 0.0
    """Most seconds of a statement; 0 for no limit."""


class ConnectionGone(ReplayerError):
    """The server ended a connection, or refused a statement of a load."""

    def __init__(self, why: str, sqlstate: str = LOST) -> None:
        super().__init__(why)
        self.sqlstate = sqlstate
        """The server's last error, if it sent one."""


class Refused(Exception):
    """No connection was made; `passing` is true if another attempt may succeed a little later."""

    def __init__(self, why: str, *, passing: bool) -> None:
        super().__init__(why)
        self.passing = passing


class WireSession(Protocol):
    """The interface of a connection for a load; it has at most one statement under way."""

    packing: Packing
    sqlstate: str
    """SQLSTATE of the last complete answer; "" if it has no error."""

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare the statements; later calls name them by their index."""
        ...

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when data has arrived."""
        ...

    def send_prepared(self, place: int, payload: bytes) -> None:
        """Send a statement with its parameters.  Raises ConnectionGone."""
        ...

    def receive(self) -> bool:
        """Read what arrived; return True at the end of the answer.  Raises ConnectionGone."""
        ...

    def refusal(self) -> tuple[str, str]:
        """Return the server's own code and the message of the last answer that has an error."""
        ...

    def run(self, texts: Sequence[str]) -> None:
        """Execute statements without parameters, one after the other, and wait for each."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class WireConnection(WireSession, Protocol):
    """The interface of a connection for a replay; replayer writes and reads its protocol itself."""

    fd: int
    prepared: dict[bytes, int]
    """Names of prepared statements -> the places of their texts."""
    feed: int
    """Descriptor of the file whose data the next COPY FROM STDIN sends, -1 for none."""
    unsent: bytes
    """Bytes that the socket did not take at once."""
    rows: int
    """Rows that the answer returned or changed; -1 if it has no number of rows."""
    matched: int
    """Rows that an UPDATE matched, if the server reports them; else -1."""
    hash: int
    """Hash of the rows of the last complete answer."""

    @property
    def session(self) -> int:
        """Return the number of the session in the server."""
        ...

    @property
    def idle(self) -> bool:
        """Return whether no transaction is open."""
        ...

    def send(self, whole: bytes, *, extended: bool, in_order: bool) -> None:
        """Send a message; `flush` sends the bytes that the socket does not take at once.

        Raises ConnectionGone.
        """
        ...

    def execute(
        self, name: bytes, place: int, text: bytes, ending: bytes, *, in_order: bool
    ) -> None:
        """Execute a named statement; prepare it first if necessary.  Raises ConnectionGone.

        `place` identifies its `text`; `ending` comes from the wire's `encode_values`.
        """
        ...

    def flush(self) -> None:
        """Send more of the bytes that the socket did not take at once.  Raises ConnectionGone."""
        ...


class ConnectionAttempt(Protocol):
    """An attempt to connect, which never blocks."""

    events: int
    """The epoll events that it waits for."""

    def fileno(self) -> int:
        """Return the descriptor that it waits for now."""
        ...

    def go_on(self) -> bool:
        """Continue without blocking; return True when the connection is made.  Raises Refused."""
        ...

    def connection(self, *, hashes: bool, read_only: bool) -> WireConnection:
        """Return the connection that was made; with `hashes`, it hashes the rows of each answer.

        With `read_only`, it raises ConnectionGone once the server reports that its session is no
        longer read only.
        """
        ...

    def close(self) -> None:
        """Give the attempt up."""
        ...


def encode_text(text: str) -> bytes:
    """Return a text as the bytes that the client sent, without zero bytes, which are invalid."""
    return text.encode("utf-8", "surrogateescape").replace(b"\0", b"")


def check_refusal(session: WireSession) -> None:
    """Raise ConnectionGone if the last statement was refused with a code that allows no retry."""
    if session.sqlstate:
        code, message = session.refusal()
        if code not in _AGAIN:
            raise ConnectionGone(f"the database reported: {message}", session.sqlstate)


def await_answer(session: WireSession) -> None:
    """Wait for the end of an answer; raise ConnectionGone as `check_refusal` does."""
    while not session.receive():
        select.select([session], [], [])
    check_refusal(session)
