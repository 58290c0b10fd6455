"""ClickHouse's HTTP interface, by clickhouse-connect."""

from collections.abc import Mapping
from typing import Any

from replayer.engines.login import is_here
from replayer.engines.wires import CONNECT_SECONDS
from replayer.errors import Impossible

SCHEME = "clickhousedb+connect"
DRIVER = "clickhouse_connect.dbapi"
EXTRA = "clickhouse"
LIMITS = {"connect_timeout": str(CONNECT_SECONDS)}
DIALECT = "replayer.engines.wires.clickhouse.server_dialect:ClickHouseServerDialect"
_ALLOW = "allow_cleartext"
_LONGEST_SECONDS = 1_000_000
"""Time limit of a statement in seconds; a statement may take hours."""
_OF_TLS = ("ca_cert", "verify", "client_cert", "client_cert_key")


def open_connection(arguments: Mapping[str, Any]) -> Any:
    """Return a connection that sends its settings with each statement, as HTTP has no session.

    Raises Impossible if the password would be sent so that other hosts can read it.
    """
    given = {name: value for name, value in arguments.items() if name != "autocommit"}
    allowed = str(given.pop(_ALLOW, "0")) == "1"
    encrypted = str(given.get("secure", "")).lower() in {"1", "true"}
    host = str(given.get("host") or "localhost")
    if given.get("password") and not (allowed or encrypted or is_here(host)):
        raise Impossible(
            f"the password would go to {host} as it is, over a connection that is not encrypted: "
            f"encrypt that with ?secure=true, or allow it with ?{_ALLOW}=1"
        )
    own = {
        "secure": encrypted,
        "autogenerate_session_id": False,
        "send_receive_timeout": _LONGEST_SECONDS,
        "query_retries": 0,
    }
    pool = {name: given[name] for name in _OF_TLS if name in given}
    if "verify" in pool:
        pool["verify"] = str(pool["verify"]).lower() in {"1", "true"}
    # It needs clickhouse-connect, which is an extra.
    from replayer.engines.wires.clickhouse.http_connection import (  # noqa: PLC0415
        KnownSocketConnection,
    )

    return KnownSocketConnection(pool, {**given, **own})


def get_process(connection: Any) -> int:
    """Return the number that replayer gave this connection, as HTTP has no session.

    The server receives it with every statement, in its setting log_comment.
    """
    return int(connection.number)


def get_password(connection: Any) -> str:
    """Return the password of the login."""
    return str(connection.password)


def get_descriptor(connection: Any) -> int:
    """Return the descriptor of the socket in use."""
    return int(connection.fileno())


def ping(connection: Any, seconds: float) -> bool:
    """Return whether the server answers a request for /ping within `seconds`."""
    return bool(connection.ping(seconds))
