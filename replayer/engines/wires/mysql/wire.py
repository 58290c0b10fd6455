"""MySQL's protocol, by PyMySQL."""

import importlib
import socket
from collections.abc import Mapping
from typing import Any

from replayer.engines.wire_session import WireSession
from replayer.engines.wires import CONNECT_SECONDS

SCHEME = "mysql+pymysql"
DRIVER = "pymysql"
LIMITS = {"connect_timeout": str(CONNECT_SECONDS)}
PARAMETERS = "qmark"


def open_connection(arguments: Mapping[str, Any]) -> Any:
    """Return a PyMySQL connection; its connect_timeout covers the first packet only."""
    mysql_login = importlib.import_module("replayer.engines.wires.mysql.mysql_login")
    if "read_timeout" in arguments:
        return mysql_login.connect(arguments)
    connection = mysql_login.connect({**arguments, "read_timeout": CONNECT_SECONDS})
    connection._read_timeout = None  # noqa: SLF001 - from here on a statement may take hours
    end = connection._sock  # noqa: SLF001
    if end.family != socket.AF_UNIX:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 20_000)
    return connection


def get_process(connection: Any) -> int:
    """Return the id of the server's session."""
    return int(connection.thread_id())


def get_password(connection: Any) -> str:
    """Return the password of the login."""
    given = connection.password
    return given.decode("latin1") if isinstance(given, bytes) else str(given or "")


def get_descriptor(connection: Any) -> int:
    """Return the descriptor of PyMySQL's socket."""
    return int(connection._sock.fileno())  # noqa: SLF001 - it has no other face


def ping(connection: Any, seconds: float) -> bool:
    """Send COM_PING."""
    connection._read_timeout = seconds  # noqa: SLF001
    connection.ping(reconnect=False)
    return True


def open_session(connection: Any) -> WireSession:
    """Return a session with the binary protocol, which PyMySQL lacks."""
    # A control connection needs no sessions: they are loaded where they are used.
    module = importlib.import_module("replayer.engines.wires.mysql.binary_session")
    session: WireSession = module.BinarySession(connection)
    return session
