"""Interface of a replay to a server's protocol: connections that never block the caller."""

from collections.abc import Generator
from typing import Protocol

from replayer.steps.replay import mysql_connection, postgres_connection


class Connection(Protocol):
    """One connection with at most one statement under way."""

    fd: int
    prepared: dict[bytes, int]
    """Names of prepared statements -> the places of their texts."""
    feed: int
    """Descriptor of the file whose data the next COPY FROM STDIN sends, -1 for none."""
    unsent: bytes
    """Bytes that the socket did not take at once."""
    sqlstate: str
    """SQLSTATE of the last complete answer; "" if it has no error."""
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

        `place` identifies its `text`; `ending` is the end of the Bind message.
        """
        ...

    def flush(self) -> None:
        """Send more of the bytes that the socket did not take at once.  Raises ConnectionGone."""
        ...

    def receive(self) -> bool:
        """Read what arrived; return True at the end of the answer.  Raises ConnectionGone."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class ConnectionAttempt(Protocol):
    """An attempt to connect."""

    events: int
    """The epoll events that it waits for."""

    def fileno(self) -> int:
        """Return the descriptor that it waits for now."""
        ...

    def go_on(self) -> bool:
        """Continue without blocking; return True when the connection is made.  Raises Refused."""
        ...

    def connection(self, verify: str, *, read_only: bool) -> Connection:
        """Return the connection that was made.

        With `read_only`, it raises ConnectionGone once the server reports that its session is no
        longer read only.
        """
        ...

    def close(self) -> None:
        """Give the attempt up."""
        ...


def connecting(wire: str, conninfo: str) -> ConnectionAttempt:
    """Begin to connect; raise Refused if that fails at once."""
    return (
        mysql_connection.MySQLConnectionAttempt(conninfo)
        if wire == "mysql"
        else postgres_connection.PostgresConnectionAttempt(conninfo)
    )


def blocked(
    wire: str, conninfo: str, statement: str
) -> Generator[list[tuple[int, int]], None, None]:
    """Yield, at each step, pairs of sessions: one that waits for a lock, one that it waits for.

    The numbers are those of the sessions in the server.  The generator ends if the server cannot
    be asked.
    """
    if wire == "mysql":
        return mysql_connection.blocked(conninfo, statement)
    return postgres_connection.blocked(conninfo, statement)
