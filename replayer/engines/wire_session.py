"""Interfaces of connections for measured work: they send without waiting for the answer.

The module of a database protocol in engines/wires may have classes with these interfaces.  This
module imports little, because worker processes load it.
"""

import re
import select
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from replayer.errors import ReplayerError

LOST = "08006"
"""SQLSTATE of a lost connection."""
_AGAIN = frozenset({"40P01", "40001", "1213", "1205"})
"""Error codes of servers that ask for a retry: deadlock, serialization failure, lock timeout."""
_REFUSED = re.compile(r"(?!08|57P0|25P0[34]|70100)[0-9A-Z]{5}")
"""SQLSTATEs of refused statements: all but those with which a connection may have ended.

25P03 and 25P04 are timeouts of PostgreSQL that end a session.
"""
_ENDING = frozenset({"3032", "3169", "4031"})
"""Error codes of MySQL with which a session ends: offline mode, killed, timeout.

Their SQLSTATE is HY000, as that of many errors after which the session goes on.
"""


@dataclass(frozen=True, slots=True)
class DriverStatement:
    """One statement of a load on one table; its text has the parameters in the driver's form."""

    kind: str
    text: str
    names: tuple[str, ...]
    """Names of the parameters, in the order in which their values are packed."""
    weight: float
    span: int
    """Number of rows that the statement touches by an index."""
    burn: float
    """Units of CPU to burn on each row, on average; a unit is one evaluation of an expression."""


@dataclass(frozen=True, slots=True)
class Packing:
    """The form in which integer parameters are sent: 8 bytes each, a byte order, a prefix."""

    order: Literal["<", ">"]
    prefix: bytes = b""
    """Bytes before each parameter."""


@dataclass(frozen=True, slots=True)
class SessionLogin:
    """Properties of a captured session, with which a replay logs in again."""

    application: str = ""
    settings: Sequence[tuple[str, str]] = field(default=())
    """Names and values of the captured session's settings; only those with valid names."""
    role: str = ""
    """The role that the session takes on; "" for none."""
    read_only: bool = False
    timeout: float = 0.0
    """Time limit of each statement in seconds; 0 for no limit."""


class ConnectionGone(ReplayerError):
    """The error for a connection that is lost, or for a statement that the server refused."""

    def __init__(self, why: str, sqlstate: str = LOST, *, refused: bool = False) -> None:
        super().__init__(why)
        self.sqlstate = sqlstate
        """SQLSTATE of the server's last error; LOST if it sent none."""
        self.refused = refused
        """True if the server only refused a statement, so that the connection is not lost."""


class Refused(Exception):
    """The error for an attempt to connect that failed.

    `passing` is true if another attempt may succeed a little later.
    """

    def __init__(self, why: str, *, passing: bool) -> None:
        super().__init__(why)
        self.passing = passing


class WireSession(Protocol):
    """The interface of a connection for a load; it has at most one statement under way."""

    packing: Packing
    sqlstate: str
    """SQLSTATE of the last complete answer; "" if it has no error."""

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare the statements; `send_prepared` then refers to each by its index in this list."""
        ...

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when data has arrived."""
        ...

    def send_prepared(self, place: int, payload: bytes) -> None:
        """Send the prepared statement with the index `place`; `payload` are its packed parameters.

        Raises ConnectionGone.
        """
        ...

    def receive(self) -> bool:
        """Read the bytes that arrived; return True if the answer is complete, else False.

        Raises ConnectionGone if the connection is lost.
        """
        ...

    def refusal(self) -> tuple[str, str]:
        """Return the server's own code and the message of the last answer that has an error."""
        ...

    def run(self, texts: Sequence[str]) -> None:
        """Execute statements without parameters, one after the other, and wait for each.

        Raises ConnectionGone if one fails.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class WireConnection(WireSession, Protocol):
    """The interface of a connection for a replay; it writes and reads the protocol itself."""

    fd: int
    prepared: dict[bytes, int]
    """Name of a prepared statement -> the `place` with which `execute` prepared it."""
    feed: int
    """Descriptor of the file whose data the next COPY FROM STDIN sends, -1 for none."""
    unsent: bytes
    """Bytes that the socket did not take at once."""
    rows: int
    """Rows that the answer returned or changed; -1 if it has no number of rows."""
    matched: int
    """Rows that an UPDATE matched, if the server reports them; else -1."""
    hash: int
    """Hash of the rows of the last complete answer; 0 if it has no rows or they are not hashed."""

    @property
    def session(self) -> int:
        """Return the server's id of the session: of its process or its thread."""
        ...

    @property
    def idle(self) -> bool:
        """Return whether no transaction is open."""
        ...

    def send(self, whole: bytes, *, extended: bool, in_order: bool) -> None:
        """Send the bytes `whole`; those that the socket does not take at once are left for `flush`.

        `extended` is True for messages of PostgreSQL's extended query protocol.  `in_order` is True
        if `hash`, the hash of the answer's rows, is to depend on their order.  Raises
        ConnectionGone.
        """
        ...

    def execute(
        self, name: bytes, place: int, text: bytes, ending: bytes, *, in_order: bool
    ) -> None:
        """Execute the prepared statement `name`.  Raises ConnectionGone.

        If the connection has not prepared it yet, `text` is prepared first; `place` is the number
        that identifies this text.  `ending` has the values, as `encode_values` of the wire (the
        module of the protocol) packs them.  `in_order` is True if `hash`, the hash of the answer's
        rows, is to depend on their order.
        """
        ...

    def flush(self) -> None:
        """Send more of the bytes that the socket did not take at once.  Raises ConnectionGone."""
        ...


class ConnectionAttempt(Protocol):
    """An attempt to connect to a server; only its `close` may block."""

    events: int
    """The epoll events of `fileno` for which the attempt waits now."""

    def fileno(self) -> int:
        """Return the descriptor for which the attempt waits now; it may change after `go_on`."""
        ...

    def go_on(self) -> bool:
        """Continue without blocking; return True when the connection is made.  Raises Refused."""
        ...

    def connection(self, *, hashes: bool, read_only: bool) -> WireConnection:
        """Return the connection that was made; with `hashes`, it hashes the rows of each answer.

        With `read_only`, the connection raises ConnectionGone once the server reports that the
        session is no longer read only.
        """
        ...

    def close(self) -> None:
        """End the attempt; close the connection if it was made already.

        This blocks if a thread makes the attempt: it waits until that thread ends.
        """
        ...


def encode_text(text: str) -> bytes:
    """Return a captured text as the bytes that its client sent, without zero bytes (invalid)."""
    return text.encode("utf-8", "surrogateescape").replace(b"\0", b"")


def check_refusal(session: WireSession) -> None:
    """Raise ConnectionGone if the last statement was refused with a code that allows no retry."""
    if session.sqlstate:
        code, message = session.refusal()
        if code not in _AGAIN:
            raise ConnectionGone(
                f"the database reported: {message}",
                session.sqlstate,
                refused=code not in _ENDING and _REFUSED.fullmatch(session.sqlstate) is not None,
            )


def await_answer(session: WireSession) -> None:
    """Wait until the answer to the last statement is complete.

    Raises ConnectionGone if the connection is lost.  Also raises it if the server refused the
    statement, unless for a deadlock or the like, after which a retry may succeed.
    """
    while not session.receive():
        select.select([session], [], [])
    check_refusal(session)
