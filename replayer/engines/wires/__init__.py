"""Wires: how a server is reached, one file or folder each, found by name.

A wire is a driver of Python's database interface (DBAPI), and what that interface leaves out: the
socket beneath a connection, an empty request that no log shows, sessions that send without waiting.
Only modules of this package use private members of drivers.  An engine.toml names its wire by
`SCHEME`.

A wire imports its driver inside its functions, as listing the engines must not load drivers.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from replayer import lazy_import, registry
from replayer.errors import Impossible, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from replayer.engines.wire_session import ConnectionAttempt, SessionLogin, WireSession

KIND = "engines.wires"
CONNECT_SECONDS = 10
"""Seconds after which one attempt to connect is given up."""


DumpForm = Literal["plain", "archive", "folder"]
"""The form of a dump: a file of SQL, a file in another format, or a folder."""


class DumpLoader(NamedTuple):
    """The command that loads a dump into a database: names of the program, arguments, environment.

    A dump that is a file is given to it on standard input.
    """

    programs: tuple[str, ...]
    """Names of the program, the preferred one first."""
    words: list[str]
    environment: dict[str, str]


class Wire(Protocol):
    """The interface of a wire's module, with a default for each member that may be left out.

    A wire is the protocol of a client with a server, and the driver for it.
    """

    SCHEME: str
    """The scheme of the wire's URLs for SQLAlchemy, such as postgresql+psycopg."""
    DRIVER: str
    """The name of the driver's module, which has `Error` as every DBAPI module."""
    EXTRA: str = ""
    """The extra of the package replayer with the driver; "" if every installation has it."""
    LIMITS: Mapping[str, str] = {}
    """Parameters of a URL that end a connection to a dead host, and limit attempts to connect."""
    PARAMETERS: str = ""
    """The server's form of parameters in prepared statements, by SQLAlchemy's name.

    numeric_dollar is `$1`, qmark is `?`.  "" means that sessions prepare no statements: the
    driver's cursor gets each statement with its values.
    """
    DIALECT: str = ""
    """`module:class` of an SQLAlchemy dialect for SCHEME; "" for SQLAlchemy's own dialect.

    If it is "" and SQLAlchemy has no dialect for SCHEME, replayer's PlainDialect is taken.
    """
    LANGUAGE: str = ""
    """The SQL dialect of captures that can be replayed over the wire; "" for none."""
    ANY_DATABASE: bool = False
    """True if a session may use every database of its server, and the URL names only the first."""

    @abstractmethod
    def open_connection(self, arguments: Mapping[str, Any]) -> Any:
        """Return a DBAPI connection; an attempt to connect is given up after some seconds.

        `arguments` are the keyword arguments of the driver's `connect`.
        """

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

        The answer must come within `seconds`.  The caller takes any exception as no answer.
        """

    def secure(self, query: Mapping[str, Any], host: str | None) -> dict[str, str]:  # noqa: ARG002
        """Return URL parameters for a login in which no other host can read the password.

        `query` are the parameters that the URL has.
        """
        return {}

    def sleep_soundly(self, connection: Any) -> None:
        """Make a worker's connection wait without the periodic wake-ups that a driver may have."""

    def open_session(self, connection: Any) -> WireSession:
        """Return a session that sends without waiting; by default it uses the driver's cursor."""
        return open_by_driver(self, connection)

    # A wire with LANGUAGE has what follows, but for what its servers cannot do.

    def load_attempts(self) -> Callable[[str], ConnectionAttempt]:
        """Load the driver, and return the function that begins to connect, without blocking.

        It takes the text that `make_conninfo` returns, and raises Refused if that fails at once.
        """

    def make_conninfo(self, arguments: Mapping[str, Any], login: SessionLogin) -> str:
        """Return a text with all that an attempt to connect needs, for the wire's own use.

        `login` has the properties of the captured session that the new session gets.  `arguments`
        are those of `open_connection`.
        """

    def encode_query(self, text: str) -> bytes:
        """Return the message of the protocol that executes an SQL text without parameters."""

    def encode_values(self, values: Sequence[str | None]) -> bytes:
        """Return these values, packed as the end of a message that executes a prepared statement.

        The values are sent as text; None is NULL.
        """

    def encode_bound(self, text: str, values: Sequence[str | None]) -> bytes:
        """Return the messages of the protocol that execute an SQL text with parameters once.

        `values` are the parameters as text; None is NULL.
        """

    def encode_failure(self, sqlstate: str, *, begins: bool, ends: bool) -> bytes:
        """Return a message that leaves the transaction in the state that a failed statement leaves.

        A replay sends it in place of a statement that failed with `sqlstate` in the capture.
        `begins`: that statement began the transaction.  `ends`: it was the end of the transaction.
        """

    def is_by_others(self, sqlstate: str, seconds: float) -> bool:
        """Return whether another session, a timeout or an operator ended a statement.

        Such an error does not depend on the data.  `sqlstate` is the statement's error, and
        `seconds` is its duration.
        """

    def explain(self, connection: Any, text: bytes, values: Sequence[bytes | None]) -> list[bytes]:
        """Return the lines of a statement's plan, without executing the statement.

        `values` are its parameters.  Raises ReplayerError if the server refuses.
        """

    def make_loader(self, dump: DumpForm, arguments: Mapping[str, Any]) -> DumpLoader | None:
        """Return the command that loads a dump of this form; None if no program can.

        `arguments` are those of `open_connection`: they name the database that gets the dump.
        """


FACE = Wire


def open_by_driver(wire: Wire, connection: Any) -> WireSession:
    """Return a session that uses the driver's cursor; its statements have parameters as `%s`."""
    # A control connection needs no sessions: they are loaded where they are used.
    from replayer.engines.dbapi_session import DbapiSession  # noqa: PLC0415

    error = lazy_import.load(wire.DRIVER).Error
    return DbapiSession(connection, error, wire.get_descriptor(connection))


def has_own(wire: Wire, member: str) -> bool:
    """Return whether a wire's module defines a member itself, so that the default is not used."""
    return member in vars(type(wire))


def load(name: str) -> Wire:
    """Return the wire (driver and protocol) of that name: that of its module in engines/wires."""
    return cast("Wire", registry.plugin(KIND, name))


def name_of(scheme: str) -> str:
    """Return the name of the wire (driver and protocol) whose SCHEME is the given one.

    Raises ValueError if there is none.  Raises Impossible if there is none, but a wire that cannot
    be loaded may have this SCHEME.
    """
    schemes: dict[str, str] = {}
    broken: Impossible | None = None
    for name in registry.names(KIND):
        try:
            schemes[load(name).SCHEME] = name
        except Impossible as error:
            # A user's own file: it is no reason to refuse the engines of other wires.
            broken = broken or error
    if scheme in schemes:
        return schemes[scheme]
    if broken is not None:
        raise broken
    raise ValueError(f"there is no wire with that SCHEME{nearest(scheme, schemes)}")
