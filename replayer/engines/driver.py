"""Raw driver connections for measured work: no SQLAlchemy, imported in milliseconds."""

import contextlib
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replayer import lazy_import
from replayer.engines import wires
from replayer.engines.server_message import explain
from replayer.engines.wire_session import WireSession
from replayer.errors import Impossible, ReplayerError

PARAMETERS = "pyformat"
"""The form of parameters in statements for a cursor, by DBAPI's name."""
_CREDENTIALS = struct.Struct("3i")
"""struct ucred of unix(7): process, user, group."""


@dataclass(frozen=True, slots=True)
class Connector:
    """The data with which a worker process connects; it is sent by a pipe, never in argv."""

    wire: str
    """The name of the wire in engines/wires."""
    arguments: dict[str, Any] = field(repr=False)
    first: tuple[str, ...] = ()
    """Statements that every new connection starts with."""
    by_driver: bool = False
    """True if sessions use the driver's cursor although their wire has a cheaper way."""


def open_connection(wire: str, arguments: Mapping[str, Any]) -> Any:
    """Return a new connection through a wire, which is the name of a module of engines/wires.

    The attempt to connect ends after some seconds.  Raises Impossible for a driver that replayer
    cannot use.
    """
    load(wire)
    return wires.load(wire).open_connection(arguments)


def cut(wire: str, connection: Any) -> None:
    """Shut a connection's socket down, so that a thread that waits on it gets an error."""
    with contextlib.suppress(Exception), _copy(wire, connection) as copy:
        copy.shutdown(socket.SHUT_RDWR)


def end(wire: str, connection: Any) -> None:
    """Shut a connection's socket down and close the connection; ignore errors of the driver."""
    cut(wire, connection)
    with contextlib.suppress(Exception):
        connection.close()


def listener(wire: str, connection: Any) -> int:
    """Return the id of the process that listens at the other end of a connection's Unix socket.

    Returns 0 if it is not known, as for a connection that uses no Unix socket.
    """
    try:
        with _copy(wire, connection) as copy:
            if copy.family != socket.AF_UNIX:
                return 0
            peer = copy.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return 0
    return int(_CREDENTIALS.unpack(peer)[0])


def _copy(wire: str, connection: Any) -> socket.socket:
    """Return a copy of a connection's socket, with its own descriptor.

    The copy stays valid if a thread that waits on the connection closes the original.
    """
    return socket.socket(fileno=os.dup(wires.load(wire).get_descriptor(connection)))


def answers(wire: str, connection: Any, seconds: float) -> bool:
    """Send an empty request on a connection that is not in use; return whether it was answered.

    The answer must come within `seconds`; an error of the driver counts as no answer.
    """
    try:
        return wires.load(wire).ping(connection, seconds)
    except Exception:  # noqa: BLE001 - any error of a driver means no answer
        return False


def connect(connector: Connector, *extra: str) -> Any:
    """Return an autocommit DBAPI connection on which `connector.first` and `extra` were executed.

    Raises ReplayerError with one sentence if the server refuses or does not exist.
    """
    try:
        with contextlib.ExitStack() as refused:
            connection = open_connection(
                connector.wire, {**connector.arguments, "autocommit": True}
            )
            refused.callback(connection.close)
            with contextlib.closing(connection.cursor()) as cursor:
                for statement in (*connector.first, *extra):
                    cursor.execute(statement)
            refused.pop_all()
    except ReplayerError:
        raise
    except Exception as error:
        # The driver's own error, or its error on an invalid greeting.
        raise ReplayerError(
            f"the database server refused a connection: {explain(error)}"
        ) from error
    return connection


def load(wire: str) -> Any:
    """Return the Python module of a wire's driver, such as psycopg.

    Raises Impossible if the module has no base class `Error`, or if its form of parameters is not
    the one that replayer uses (PARAMETERS).
    """
    name = wires.load(wire).DRIVER
    module = lazy_import.load(name)
    if not hasattr(module, "Error"):
        raise Impossible(
            f"the wire {wire}: its driver {name} has no `Error`, the base class of what it raises"
        )
    form = getattr(module, "paramstyle", PARAMETERS)
    if form != PARAMETERS:
        raise Impossible(
            f"the wire {wire}: its driver {name} has parameters of the form {form}, and replayer "
            f"gives them as {PARAMETERS} (`%(name)s` and a table): set its paramstyle, or have "
            f"the wire's cursors translate them"
        )
    return module


def connect_worker(connector: Connector, *extra: str) -> Any:
    """Return an autocommit connection of a worker, which waits without periodic wake-ups.

    The statements `connector.first` and `extra` were executed on it.  Raises ReplayerError if the
    server refuses or does not exist.
    """
    connection = connect(connector, *extra)
    wires.load(connector.wire).sleep_soundly(connection)
    return connection


def connect_session(connector: Connector, *extra: str) -> WireSession:
    """Return a new session, which sends statements without waiting for the answer.

    The statements `connector.first` and `extra` were executed on it.  Raises ReplayerError if the
    server refuses or does not exist.
    """
    wire = wires.load(connector.wire)
    connection = connect(connector, *extra)
    if connector.by_driver:
        return wires.open_by_driver(wire, connection)
    return wire.open_session(connection)


def driver_error(connector: Connector) -> type[Exception]:
    """Return the base class of all exceptions of the connector's driver, its DBAPI `Error`."""
    module = lazy_import.load(wires.load(connector.wire).DRIVER)
    error: type[Exception] = module.Error
    return error
