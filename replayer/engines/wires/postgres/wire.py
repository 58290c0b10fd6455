"""PostgreSQL's protocol, by psycopg and libpq."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from replayer import lazy_import
from replayer.cli.argv_secrets import SECRET
from replayer.engines import login
from replayer.engines.server_message import explain_bytes
from replayer.engines.wire_session import ConnectionAttempt, SessionLogin, WireSession
from replayer.engines.wires import CONNECT_SECONDS, DumpForm, DumpLoader
from replayer.engines.wires.postgres import waiting
from replayer.engines.wires.postgres.postgres_message import (
    encode_bound,
    encode_failure,
    encode_query,
    encode_values,
)
from replayer.engines.wires.postgres.waiting import sleep_soundly
from replayer.errors import Impossible, ReplayerError

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
LANGUAGE = "postgres"
__all__ = ["encode_bound", "encode_failure", "encode_query", "encode_values", "sleep_soundly"]
_BY_OTHERS = re.compile(r"40[0-9A-Z]{3}|57[0-9A-Z]{3}|55P03|08006|08P01")
"""SQLSTATEs of statements that another session, a timeout, an operator or the client ended.

Such a statement was rolled back as a victim, was cancelled, or waited for a lock for too long; or
its client left in the middle of the data of a COPY, or sent what the protocol does not allow.
"""
_TUPLES_OK = 2
_NOT_OF_LIBPQ = frozenset({"autocommit", "context", "row_factory", "cursor_factory"})
_PARTING = re.compile(r"[\\\s]", re.ASCII)
"""White space, at which a server splits its options, and the backslash that escapes it."""
_ESCAPED = r"\\\g<0>"
_LONGEST_NAME = 63
"""Characters of an application's name: the server truncates a longer one."""
_PSQL = ("-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-")
_PG_RESTORE = ("--no-owner", "--no-privileges", "--exit-on-error")


def open_connection(arguments: Mapping[str, Any]) -> Any:
    """Return a psycopg connection; its connect_timeout covers the whole handshake."""
    return lazy_import.load(DRIVER).connect(**arguments)


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
    """Return whether the server answers an empty query within `seconds`."""
    return waiting.ask_nothing(connection.pgconn, seconds)


def secure(query: Mapping[str, Any], host: str | None) -> dict[str, str]:
    """Return the URL parameter that forbids libpq to send a readable password; {} if not needed."""
    return login.required(query, host)


def open_session(connection: Any) -> WireSession:
    """Return a session whose messages are built here, or by libpq if they are encrypted."""
    # A control connection needs no sessions: they are loaded where they are used.
    from replayer.engines.wires.postgres.postgres_connection import (  # noqa: PLC0415
        EncryptedPostgresConnection,
        PostgresConnection,
    )

    pg = connection.pgconn
    kind = EncryptedPostgresConnection if pg.ssl_in_use else PostgresConnection
    return kind(pg, connection.close)


def load_attempts() -> Callable[[str], ConnectionAttempt]:
    """Return the class PostgresConnectionAttempt; its objects are attempts to connect by libpq."""
    # Few commands open connections by the hundred.
    from replayer.engines.wires.postgres.libpq_attempt import (  # noqa: PLC0415
        PostgresConnectionAttempt,
    )

    return PostgresConnectionAttempt


def make_conninfo(arguments: Mapping[str, Any], login: SessionLogin) -> str:
    """Return libpq's connection string, with the settings and role of a captured session."""
    plain = _of_libpq(arguments)
    # Whatever a client's encoding was, the log has its texts in the encoding of the database.
    settings = [one for one in login.settings if one[0].lower() != "client_encoding"]
    if login.timeout:
        settings.append(("statement_timeout", f"{round(login.timeout * 1e3)}ms"))
    if login.read_only:
        settings.append(("default_transaction_read_only", "on"))
        # With it, the server finds the end of a string where replayer finds it.
        settings.append(("standard_conforming_strings", "on"))
    if login.role:
        settings.append(("role", login.role))
    given = [f"-c {name}={_PARTING.sub(_ESCAPED, _sent(value))}" for name, value in settings]
    options = " ".join([plain.pop("options", ""), *given]).strip()
    plain["application_name"] = _sent(login.application)[:_LONGEST_NAME] or "replayer"
    return _conninfo({**plain, **({"options": options} if options else {})})


def is_by_others(sqlstate: str, seconds: float) -> bool:
    """Return whether another session, a timeout or an operator ended a statement (by SQLSTATE).

    `seconds` has no effect.
    """
    del seconds
    return _BY_OTHERS.fullmatch(sqlstate) is not None


def explain(connection: Any, text: bytes, values: Sequence[bytes | None]) -> list[bytes]:
    """Return the lines of a statement's plan, made in a read-only transaction.

    `values` are the statement's parameters.  Raises ReplayerError if the server refuses.  The
    extended protocol is used, as it takes one statement only.
    """
    connection.execute("BEGIN READ ONLY")
    result = connection.pgconn.exec_params(b"EXPLAIN " + text, values)
    connection.execute("ROLLBACK")
    if result.status != _TUPLES_OK:
        raise ReplayerError(explain_bytes(result.error_message))
    return [result.get_value(row, 0) or b"" for row in range(result.ntuples)]


def make_loader(dump: DumpForm, arguments: Mapping[str, Any]) -> DumpLoader:
    """Return the command that loads a dump: psql for a file of SQL, pg_restore for any other.

    Raises Impossible if the arguments have a secret that all users could read from the command.
    """
    plain = _of_libpq(arguments)
    # Older programs reject the parameter, but ignore the environment variable.
    names = {"password": "PGPASSWORD", login.REQUIRE: "PGREQUIREAUTH"}
    variables = {names[name]: plain.pop(name) for name in names if name in plain}
    secret = next(filter(SECRET.search, plain), "")
    if secret:
        raise Impossible(
            f"the server's address has {secret}, which the program that loads a dump takes on its "
            f"command line only, where all users can read it: load the dump by hand, and give "
            f"restore the name of its database"
        )
    program, words = ("psql", _PSQL) if dump == "plain" else ("pg_restore", _PG_RESTORE)
    return DumpLoader((program,), [*words, "-d", _conninfo(plain)], variables)


def _conninfo(plain: dict[str, str]) -> str:
    made: str = lazy_import.load("psycopg.conninfo").make_conninfo(**plain)
    return made


def _of_libpq(arguments: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in arguments.items() if name not in _NOT_OF_LIBPQ}


def _sent(text: str) -> str:
    """Return a text in a form that libpq takes: ? for invalid characters, no zero bytes."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")
