"""PostgreSQL's protocol, by psycopg and libpq."""

import importlib
from collections.abc import Mapping
from typing import Any

from replayer.engines import login
from replayer.engines.wire_session import WireSession
from replayer.engines.wires import CONNECT_SECONDS
from replayer.engines.wires.postgres import waiting
from replayer.engines.wires.postgres.waiting import sleep_soundly

SCHEME = "postgresql+psycopg"
DRIVER = "psycopg"
LIMITS = {
    "connect_timeout": str(CONNECT_SECONDS),
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
PARAMETERS = "numeric_dollar"
__all__ = ["sleep_soundly"]


def open_connection(arguments: Mapping[str, Any]) -> Any:
    """Return a psycopg connection; its connect_timeout covers the whole handshake."""
    return importlib.import_module(DRIVER).connect(**arguments)


def get_process(connection: Any) -> int:
    """Return the process id of the server's backend."""
    return int(connection.info.backend_pid)


def get_password(connection: Any) -> str:
    """Return the password, which libpq may have from PGPASSFILE."""
    return str(connection.pgconn.password.decode(errors="surrogateescape"))


def get_descriptor(connection: Any) -> int:
    """Return the descriptor of libpq's socket."""
    return int(connection.pgconn.socket)


def ping(connection: Any, seconds: float) -> bool:
    """Send the empty query."""
    return waiting.ask_nothing(connection.pgconn, seconds)


def secure(query: Mapping[str, Any], host: str | None) -> dict[str, str]:
    """Return the login methods that libpq may use."""
    return login.required(query, host)


def open_session(connection: Any) -> WireSession:
    """Return a session whose messages are built here, or by libpq if they are encrypted."""
    # A control connection needs no sessions: they are loaded where they are used.
    sessions = importlib.import_module("replayer.engines.wires.postgres.libpq_session")
    kind = sessions.EncryptedSession if connection.pgconn.ssl_in_use else sessions.PlainSession
    session: WireSession = kind(connection)
    return session
