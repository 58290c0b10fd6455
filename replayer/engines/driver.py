"""Raw driver connections for measured work: no SQLAlchemy, imported in milliseconds."""

import contextlib
import functools
import importlib
import os
import select
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replayer.engines import login
from replayer.errors import ReplayerError, one_line

WIRES = {"postgresql+psycopg": "psycopg", "mysql+pymysql": "pymysql"}
"""The SQLAlchemy scheme of each wire that replayer supports -> the module of its driver."""
_SOUND_SLEEP = 3600.0
_CREDENTIALS = struct.Struct("3i")
"""struct ucred of unix(7): process, user, group."""
_CONNECT_SECONDS = 10
_LIMITS: Mapping[str, Mapping[str, str]] = {
    "psycopg": {
        "connect_timeout": str(_CONNECT_SECONDS),
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "tcp_user_timeout": "20000",
    },
    "pymysql": {"connect_timeout": str(_CONNECT_SECONDS)},
}


@dataclass(frozen=True, slots=True)
class Connector:
    """Everything that a worker process needs to connect; it is sent by a pipe, never in argv."""

    module: str
    """The driver's module: psycopg or pymysql."""
    arguments: dict[str, Any] = field(repr=False)
    first: tuple[str, ...] = ()
    """Statements that every new connection starts with."""


def limits(module: str) -> Mapping[str, str]:
    """Return URL parameters that end a connection to a dead host, and limit connection attempts."""
    return _LIMITS.get(module, {})


def opened(module: str, arguments: Mapping[str, Any]) -> Any:
    """Return a connection of a driver; the attempt is limited to some seconds.

    psycopg's connect_timeout covers the whole handshake, PyMySQL's only the first packet.
    """
    if module != "pymysql":
        return importlib.import_module(module).connect(**arguments)
    mysql_login = importlib.import_module("replayer.engines.mysql_login")
    if "read_timeout" in arguments:
        return mysql_login.connect(arguments)
    connection = mysql_login.connect({**arguments, "read_timeout": _CONNECT_SECONDS})
    connection._read_timeout = None  # noqa: SLF001 - from here on a statement may take hours
    end = connection._sock  # noqa: SLF001
    if end.family != socket.AF_UNIX:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 20_000)
    return connection


def announced_process(connection: Any) -> int:
    """Return the server's process id, as announced when the connection was made."""
    if hasattr(connection, "pgconn"):
        return int(connection.info.backend_pid)
    return int(connection.thread_id())


def password(connection: Any) -> str:
    """Return the password that was sent to the server, even if the driver looked it up itself."""
    if hasattr(connection, "pgconn"):
        return str(connection.pgconn.password.decode(errors="surrogateescape"))
    given = connection.password
    return given.decode("latin1") if isinstance(given, bytes) else str(given or "")


def cut(connection: Any) -> None:
    """Cut a connection: a thread that waits on it stops waiting."""
    with contextlib.suppress(Exception), _copy(connection) as copy:
        copy.shutdown(socket.SHUT_RDWR)


def listener(connection: Any) -> int:
    """Return the process that listens on the other end of a Unix socket, 0 if not known."""
    try:
        with _copy(connection) as copy:
            if copy.family != socket.AF_UNIX:
                return 0
            peer = copy.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return 0
    return int(_CREDENTIALS.unpack(peer)[0])


def _copy(connection: Any) -> socket.socket:
    """Return a copy of a connection's socket: a thread that waits on it may close the original."""
    raw = connection.pgconn.socket if hasattr(connection, "pgconn") else connection._sock  # noqa: SLF001
    return socket.socket(fileno=os.dup(raw if isinstance(raw, int) else raw.fileno()))


def answers(connection: Any, seconds: float) -> bool:
    """Send an empty request on a connection that is not in use; return whether it was answered."""
    try:
        if hasattr(connection, "pgconn"):
            return _answers_nothing(connection.pgconn, seconds)
        connection._read_timeout = seconds  # noqa: SLF001
        connection.ping(reconnect=False)
    except Exception:  # noqa: BLE001 - any error of a driver means no answer
        return False
    return True


def _answers_nothing(connection: Any, seconds: float) -> bool:
    """Send the empty query of the PostgreSQL protocol, which no log and no counter shows."""
    end = time.monotonic() + seconds
    connection.send_query(b"")
    while True:
        ready, _, _ = select.select([connection.socket], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        connection.consume_input()
        while not connection.is_busy():
            if connection.get_result() is None:
                return True


def connect(connector: Connector, *extra: str) -> Any:
    """Return an autocommit DBAPI connection on which `connector.first` and `extra` were executed.

    Raises ReplayerError with one sentence if the server refuses or does not exist.
    """
    try:
        connection = opened(connector.module, {**connector.arguments, "autocommit": True})
        with connection.cursor() as cursor:
            for statement in (*connector.first, *extra):
                cursor.execute(statement)
    except ReplayerError:
        raise
    except Exception as error:
        # The driver's own error, or its error on an invalid greeting.
        raise ReplayerError(
            f"the database server refused a connection: {explain(error)}"
        ) from error
    return connection


def sleep_soundly(connection: Any) -> None:
    """Make a worker's connection wait for the server without periodic wake-ups.

    psycopg wakes up ten times a second to check for Ctrl-C, which a worker ignores: with 64 idle
    sessions the wake-ups alone cost more than all their statements.
    """
    wait = getattr(connection, "wait", None)
    if wait is not None:
        connection.wait = functools.partial(wait, interval=_SOUND_SLEEP)


def driver_error(connector: Connector) -> type[Exception]:
    """Return the driver's base exception class."""
    error: type[Exception] = importlib.import_module(connector.module).Error
    return error


def explain(error: BaseException) -> str:
    """Return a driver's error as part of one sentence: the first line of the server's message."""
    text = str(error.args[-1] if error.args else error).strip() or type(error).__name__
    lines = [one_line(line).strip() for line in text.splitlines() if line.strip()]
    return f"{(lines or ['it said nothing'])[0].rstrip('.')}{login.remedy(text)}"
