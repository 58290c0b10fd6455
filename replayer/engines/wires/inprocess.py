"""PostgreSQL's protocol as `replayer.engines.inprocess` speaks it: simple queries over a socket."""

from collections.abc import Mapping
from typing import Any

from replayer import lazy_import
from replayer.engines.wires import CONNECT_SECONDS
from replayer.engines.wires.postgres import waiting
from replayer.engines.wires.postgres.waiting import sleep_soundly
from replayer.engines.wires.postgres.wire import get_descriptor, get_password, get_process

SCHEME = "inprocess"
DRIVER = "psycopg"
LIMITS = {"connect_timeout": str(CONNECT_SECONDS)}
DIALECT = "replayer.engines.inprocess.dialect:InProcessDialect"
__all__ = ["get_descriptor", "get_password", "get_process", "sleep_soundly"]


def open_connection(arguments: Mapping[str, Any]) -> Any:
    """Return a psycopg connection that puts the parameters into the text of each statement."""
    psycopg = lazy_import.load(DRIVER)
    return psycopg.connect(**{**arguments, "cursor_factory": psycopg.ClientCursor})


def ping(connection: Any, seconds: float) -> bool:
    """Return whether the server answers an empty query within `seconds`.

    The server answers by itself, without its database library.
    """
    return waiting.ask_nothing(connection.pgconn, seconds)
