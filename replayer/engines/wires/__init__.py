"""Wires: how a server is reached, one file or folder each, found by name.

A wire is a driver of Python's database interface (DBAPI), and what that interface leaves out: the
socket beneath a connection, a question that no log shows, sessions that send without waiting.  All
private members of drivers are used here only.  An engine.toml names its wire by `SCHEME`.

A wire imports its driver in its functions, as listing engines must not load drivers.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, cast

from replayer import registry
from replayer.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replayer.engines.wire_session import WireSession

KIND = "engines.wires"
CONNECT_SECONDS = 10
"""The limit of one attempt to connect."""


class Wire(Protocol):
    """A wire, with a default for each member that it leaves out."""

    SCHEME: str
    """The scheme of its URLs for SQLAlchemy, such as postgresql+psycopg."""
    DRIVER: str
    """The module of its driver, which has `Error` as every DBAPI module."""
    EXTRA: str = ""
    """The extra of the package replayer with the driver; "" if every installation has it."""
    LIMITS: Mapping[str, str] = {}
    """Parameters of a URL that end a connection to a dead host, and limit attempts to connect."""
    PARAMETERS: str = ""
    """The server's form of parameters in prepared statements, by SQLAlchemy's name.

    numeric_dollar is `$1`, qmark is `?`.  "" means that it prepares none: its driver's cursor has
    the values.
    """
    DIALECT: str = ""
    """`module:class` of an SQLAlchemy dialect for SCHEME; "" for SQLAlchemy's."""

    @abstractmethod
    def open_connection(self, arguments: Mapping[str, Any]) -> Any:
        """Return a DBAPI connection; the attempt ends after some seconds."""

    @abstractmethod
    def get_process(self, connection: Any) -> int:
        """Return the server's session id, as announced when the connection was made."""

    @abstractmethod
    def get_password(self, connection: Any) -> str:
        """Return the password that was sent, even if the driver looked it up itself."""

    @abstractmethod
    def get_descriptor(self, connection: Any) -> int:
        """Return the descriptor of the connection's socket."""

    @abstractmethod
    def ping(self, connection: Any, seconds: float) -> bool:
        """Send an empty request on an idle connection; return whether it was answered in time.

        Any exception means no.
        """

    def secure(self, query: Mapping[str, Any], host: str | None) -> dict[str, str]:  # noqa: ARG002
        """Return parameters of a URL with which no other host can read the password."""
        return {}

    def sleep_soundly(self, connection: Any) -> None:
        """Make a worker's connection wait without periodic wake-ups, if its driver has such."""

    def open_session(self, connection: Any) -> WireSession:
        """Return a session that sends without waiting; without one here, by the driver's cursor."""
        return open_by_driver(self, connection)


FACE = Wire


def open_by_driver(wire: Wire, connection: Any) -> WireSession:
    """Return a session by the driver's cursor, whose statements have parameters as `%s`."""
    # A control connection needs no sessions: they are loaded where they are used.
    sessions = importlib.import_module("replayer.engines.dbapi_session")
    error = importlib.import_module(wire.DRIVER).Error
    session: WireSession = sessions.DbapiSession(connection, error, wire.get_descriptor(connection))
    return session


def has_own_sessions(name: str) -> bool:
    """Return whether the wire of that name has sessions that cost less than its driver's cursor."""
    return "open_session" in vars(type(load(name)))


def load(name: str) -> Wire:
    """Return the wire of that name, which is its file's name."""
    return cast("Wire", registry.plugin(KIND, name))


def name_of(scheme: str) -> str:
    """Return the name of the wire with that SCHEME; raise ValueError if there is none."""
    schemes = {load(name).SCHEME: name for name in registry.names(KIND)}
    if scheme not in schemes:
        raise ValueError(f"no driver of replayer speaks it{nearest(scheme, schemes)}")
    return schemes[scheme]
