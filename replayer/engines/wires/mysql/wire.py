"""MySQL's protocol, by PyMySQL."""

import json
import socket
from collections.abc import Callable, Mapping
from typing import Any

from replayer.engines.wire_session import ConnectionAttempt, SessionLogin, WireSession
from replayer.engines.wires import CONNECT_SECONDS, DumpForm, DumpLoader
from replayer.engines.wires.mysql.mysql_packet import encode_failure, encode_query

SCHEME = "mysql+pymysql"
DRIVER = "pymysql"
LIMITS = {"connect_timeout": str(CONNECT_SECONDS)}
PARAMETERS = "qmark"
LANGUAGE = "mysql"
ANY_DATABASE = True
__all__ = ["encode_failure", "encode_query"]
_BY_OTHERS = frozenset({"40001", "70100"})
_NO_STATE, _SHORTEST_WAIT = "HY000", 1.0
"""A lock wait timeout has the SQLSTATE of other errors, too, but takes at least a second."""
_MULTI_STATEMENTS = 1 << 16
"""The flag of a client that may send several statements in one text."""
_CLIENT = {
    "host": "host",
    "port": "port",
    "user": "user",
    "unix_socket": "socket",
    "database": "database",
}
"""Names of the driver's arguments -> names of the client program's options."""
_TLS = ("ca", "capath", "cert", "key", "cipher")
"""Keys of the driver's argument `ssl` that the client program has as options, after `ssl-`."""


def open_connection(arguments: Mapping[str, Any]) -> Any:
    """Return a PyMySQL connection, with a time limit for each answer until it is made.

    PyMySQL's own connect_timeout covers the first packet only.
    """
    from replayer.engines.wires.mysql import mysql_login  # noqa: PLC0415 - PyMySQL, when used

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
    """Send COM_PING and return True; raise an exception if the answer does not come in time."""
    usual = connection._read_timeout  # noqa: SLF001 - that of other statements, mostly none
    connection._read_timeout = seconds  # noqa: SLF001
    try:
        connection.ping(reconnect=False)
    finally:
        connection._read_timeout = usual  # noqa: SLF001
    return True


def open_session(connection: Any) -> WireSession:
    """Return a session with the binary protocol, which PyMySQL lacks."""
    # A control connection needs no sessions: they are loaded where they are used.
    from replayer.engines.wires.mysql.mysql_connection import MySQLConnection  # noqa: PLC0415

    return MySQLConnection(connection)


def load_attempts() -> Callable[[str], ConnectionAttempt]:
    """Return the class MySQLConnectionAttempt; its objects are attempts to connect.

    Each attempt has its own thread.
    """
    # Few commands open connections by the hundred.
    from replayer.engines.wires.mysql.threaded_attempt import (  # noqa: PLC0415
        MySQLConnectionAttempt,
    )

    return MySQLConnectionAttempt


def make_conninfo(arguments: Mapping[str, Any], login: SessionLogin) -> str:
    """Return JSON of PyMySQL's arguments; its key `first` lists statements to run first."""
    kinds = (str, int, float, bool, dict)
    plain = {name: value for name, value in arguments.items() if isinstance(value, kinds)}
    first = []
    if not login.read_only:
        # A captured client may have had it.  A replay that only reads sends single statements.
        plain["client_flag"] = int(arguments.get("client_flag", 0)) | _MULTI_STATEMENTS
    if login.timeout:
        # MySQL reads the first comment only, MariaDB the second.
        limits = round(login.timeout * 1e3), f"{login.timeout:g}"
        first.append(
            "SET /*!50704 max_execution_time = {} *//*M! max_statement_time = {} */".format(*limits)
        )
    if login.read_only:
        first.append("SET SESSION TRANSACTION READ ONLY")
    return json.dumps({**plain, "first": first})


def is_by_others(sqlstate: str, seconds: float) -> bool:
    """Return whether another session, a timeout or an operator ended a statement, by its SQLSTATE.

    HY000 may be a lock wait timeout: it counts if the statement took long enough for that.
    """
    waited = sqlstate == _NO_STATE and seconds >= _SHORTEST_WAIT
    return waited or sqlstate in _BY_OTHERS


def make_loader(dump: DumpForm, arguments: Mapping[str, Any]) -> DumpLoader | None:
    """Return the command that loads a dump by the mysql client; None if the dump is a folder."""
    if dump == "folder":
        return None
    words = [f"--{ours}={arguments[name]}" for name, ours in _CLIENT.items() if name in arguments]
    words += _tls_words(arguments.get("ssl") or {})
    password = arguments.get("password")
    secret = {"MYSQL_PWD": str(password)} if password else {}
    return DumpLoader(("mariadb", "mysql"), ["--no-defaults", "--batch", *words], secret)


def _tls_words(asked: Mapping[str, Any]) -> list[str]:
    """Return the options with which the client encrypts, and checks the server, as the driver does.

    MySQL's client has the option ssl-mode, MariaDB's has the other one.  MariaDB's client cannot
    check a certificate without its host's name: it checks both.
    """
    words = [f"--ssl-{name}={asked[name]}" for name in _TLS if name in asked]
    if "ca" in asked or "capath" in asked:
        mode = "VERIFY_IDENTITY" if asked.get("check_hostname", True) else "VERIFY_CA"
        return [*words, f"--loose-ssl-mode={mode}", "--loose-ssl-verify-server-cert"]
    return [*words, "--loose-ssl-mode=REQUIRED"] if asked else []
