"""What a replay needs of a server's wire: connections that are made and used without waiting."""

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
    """What the socket did not take at once."""
    sqlstate: str
    """Of the last answer that is complete; "" where it went well."""
    rows: int
    """Returned or changed by it, -1 where it says nothing of rows."""
    matched: int
    """Rows that it looked for to change them, where the server tells that too, else -1."""
    hash: int
    """Of its rows."""

    @property
    def session(self) -> int:
        """Return the number of the session in the server."""
        ...

    @property
    def idle(self) -> bool:
        """Tell whether no transaction is open."""
        ...

    def send(self, whole: bytes, *, extended: bool, in_order: bool) -> None:
        """Send a message; what the socket does not take at once goes with `flush`.  Raises Gone."""
        ...

    def execute(
        self, name: bytes, place: int, text: bytes, ending: bytes, *, in_order: bool
    ) -> None:
        """Execute a named statement, which is prepared if it is not yet.  Raises Gone."""
        ...

    def flush(self) -> None:
        """Send more of what could not be sent at once.  Raises Gone."""
        ...

    def receive(self) -> bool:
        """Take what came; True at the answer's end.  Raises Gone."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class ConnectionAttempt(Protocol):
    """A connection that is being made."""

    events: int
    """What of epoll it waits for."""

    def fileno(self) -> int:
        """Return what it waits on now."""
        ...

    def go_on(self) -> bool:
        """Do what can be done now; True when it is made.  Raises Refused."""
        ...

    def connection(self, verify: str, *, read_only: bool) -> Connection:
        """Return the connection that was made; one that is not read only any more is Gone."""
        ...

    def close(self) -> None:
        """Give up."""
        ...


def connecting(wire: str, conninfo: str) -> ConnectionAttempt:
    """Begin to connect; raise Refused where that is impossible at once."""
    return (
        mysql_connection.MySQLConnectionAttempt(conninfo)
        if wire == "mysql"
        else postgres_connection.PostgresConnectionAttempt(conninfo)
    )


def blocked(
    wire: str, conninfo: str, statement: str
) -> Generator[list[tuple[int, int]], None, None]:
    """Yield who waits for whom in the server, each time that it is asked for, by their numbers.

    It ends where that cannot be asked.
    """
    if wire == "mysql":
        return mysql_connection.blocked(conninfo, statement)
    return postgres_connection.blocked(conninfo, statement)
