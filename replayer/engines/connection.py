"""Connections to a database: URLs, the control connection, and the parameters of other connections.

The control connection executes replayer's statements outside of the measured load.  This is the
only module that imports SQLAlchemy, and only when it connects; SQLAlchemy is never used in a timed
loop.
"""

import contextlib
import importlib.util
import logging
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from replayer.cli.argv_secrets import SECRET, revealed
from replayer.engines import driver, refusals, watchdog, wires
from replayer.engines.credentials import redact, show
from replayer.engines.driver import Connector
from replayer.engines.engine import Engine
from replayer.engines.server_message import explain
from replayer.engines.verbs import Verb, VerbName
from replayer.errors import Denied, Impossible, ReplayerError, Skip, nearest, one_line
from replayer.lazy_import import Later

if TYPE_CHECKING:
    import sqlalchemy
    from sqlalchemy import event, exc
    from sqlalchemy.engine import URL
else:
    # SQLAlchemy takes 0.1 s to load, and many commands use no database.
    sqlalchemy, event, exc = map(Later, ("sqlalchemy", "sqlalchemy.event", "sqlalchemy.exc"))

# These libraries log an interrupted close of a connection with a traceback, and raise it as well:
# replayer reports it itself, in one sentence.
for _talkative in ("psycopg", "sqlalchemy"):
    logging.getLogger(_talkative).setLevel(logging.CRITICAL)

_RIGHTS = VerbName("rights")
_NOT_PLAIN = ("context",)
_PLAIN = "replayer.engines.plain_dialect:PlainDialect"
_sessions: set[int] = set()
"""Server session ids of the open connections of this process, as announced by their servers."""
_opening: set[object] = set()
"""Connections that a server may know already, but of which this process has no session id yet."""


class Cells(dict[str, Any]):
    """A row that a server returned: column name -> value.

    An engine's SQL file may return other columns or values than replayer needs.  The error for a
    missing column or an invalid number names that SQL file.
    """

    def __init__(self, cells: Any, source: str = "") -> None:
        """Take a row; `source` is the SQL file that returned it, or "", for error messages."""
        super().__init__(cells)
        self._source = source

    def __missing__(self, name: str) -> Any:
        raise ReplayerError(f"{self._begin()}the database answered without a column {name!r}")

    def number(self, name: str) -> int:
        """Return a cell as an integer; raise ReplayerError for any other value."""
        value = self[name]
        with contextlib.suppress(ValueError, TypeError, ArithmeticError):
            whole = int(value)
            if isinstance(value, str | bytes) or whole == value:
                return whole
        raise self._refusal(name, "a whole number")

    def real(self, name: str) -> float:
        """Return a cell as a finite number; raise ReplayerError for any other value."""
        value = self[name]
        with contextlib.suppress(ValueError, TypeError, ArithmeticError):
            number = float(value)
            if math.isfinite(number):
                return number
        raise self._refusal(name, "a finite number")

    def reals(self, *, but: Collection[str] = ()) -> dict[str, float]:
        """Return column -> finite number for all columns except `but`, without NULL cells.

        Raises ReplayerError for any other value.
        """
        return {n: self.real(n) for n in self if n not in but and self[n] is not None}

    def _refusal(self, name: str, wanted: str) -> ReplayerError:
        found = one_line(repr(self[name]), 80)
        return ReplayerError(
            f"{self._begin()}the database answered with {found} as {name!r}, where {wanted} belongs"
        )

    def _begin(self) -> str:
        return f"{self._source}: " if self._source else ""


Row = Cells


class Database:
    """A control connection to a server, for statements outside of the timed load; autocommit."""

    def __init__(
        self,
        engine: Engine,
        url: "URL",
        *,
        first: Sequence[str] | None = None,
        title: str = "",
    ) -> None:
        """Connect, and execute the statements `first`; None means those that engine.toml lists.

        `title` names a server in messages while its engine is not known yet.
        """
        self.url = url
        self._wire = wire_of(url)
        self._where = watchdog.address(url)
        self._sql = sqlalchemy.create_engine(
            _limited(url), poolclass=sqlalchemy.NullPool, pool_reset_on_return=None,
            isolation_level="AUTOCOMMIT", module=driver.load(self._wire),
            paramstyle=driver.PARAMETERS,
        )  # fmt: skip
        event.listen(self._sql, "do_connect", self._open)
        self._first = engine.spec.connect.statements if first is None else tuple(first)
        self._connection: Any = None
        self._raw: Any = None
        self._lost: BaseException | None = None
        """The error with which the connection was lost."""
        self._session = 0
        watchdog.add(self._where, self)
        _opening.add(self)
        try:
            with watchdog.Wait(self._where):
                self._connection = self._sql.connect()
                self._execute_first()
            self._session = self.announced_process()
            _sessions.add(self._session)
        except ReplayerError:
            self._forget()
            raise
        except Exception as error:
            # This includes errors of a driver or SQLAlchemy on an invalid greeting or version.
            self._forget()
            raise self._refused(error, engine, title) from error
        finally:
            _opening.discard(self)
        self.engine = engine

    def _execute_first(self) -> None:
        for statement in self._first:
            self._connection.exec_driver_sql(statement)

    def _refused(self, error: Exception, engine: Engine, title: str = "") -> ReplayerError:
        """Return the error for a refused connection; raise another if the server is unreachable."""
        watchdog.check(self._where)
        reason = redact(explain(getattr(error, "orig", None) or error), self.url)
        return ReplayerError(
            f"{title or engine.title} at {show(self.url)} refused a connection: {reason}",
            refusals.remedy_of(reason, engine.spec.password.ways),
        )

    def begin(self) -> None:
        """Execute the first statements of engine.toml on a connection that was made without them.

        Raises ReplayerError if the server refuses one.
        """
        self._first = self.engine.spec.connect.statements
        try:
            with watchdog.Wait(self._where):
                self._execute_first()
        except ReplayerError:
            raise
        except Exception as error:
            raise self._refused(error, self.engine) from error

    def _forget(self) -> None:
        """Close the driver's connection after an attempt to connect that failed, if it is open."""
        if self._connection is not None:
            self.close()
        elif self._raw is not None:
            driver.cut(self._wire, self._raw)
            with contextlib.suppress(Exception):
                self._raw.close()

    @property
    def session(self) -> int:
        """Return the id of this connection's session in the server, read when it connected."""
        return self._session

    def _open(
        self, _dialect: Any, _record: object, _positional: object, named: Mapping[str, Any]
    ) -> Any:
        self._raw = driver.open_connection(self._wire, named)
        return self._raw

    def announced_process(self) -> int:
        """Return the id of this connection's session in the server, as the driver has it now.

        It is the id of a process or a thread, according to the engine.
        """
        return wires.load(self._wire).get_process(self._raw)

    def listener(self) -> int:
        """Return the id of the process that listens on the server's Unix socket, 0 if not known."""
        return driver.listener(self._wire, self._raw)

    def password(self) -> str:
        """Return the password that was sent to the server, even if the driver looked it up."""
        return wires.load(self._wire).get_password(self._raw)

    def cut(self) -> None:
        """Shut the socket down, so that threads that wait for an answer on it get an error."""
        driver.cut(self._wire, self._raw)

    def answers(self, seconds: float) -> bool:
        """Return whether the server answers an empty request within `seconds`.

        Only one thread at a time may call it, while no statement is under way.
        """
        return driver.answers(self._wire, self._raw, seconds)

    def waiting(self) -> watchdog.Wait:
        """Return a Wait on this server, for code that waits for other events as well.

        The descriptor of the Wait becomes readable when the server no longer answers.
        """
        return watchdog.Wait(self._where)

    def close(self) -> None:
        """Close the connection; a second close, or a server that is gone, raises no error."""
        # SQLAlchemy first sends a rollback, and drops a connection that cannot do one.
        with contextlib.suppress(exc.SQLAlchemyError), watchdog.Wait(self._where):
            self._connection.close()
        with contextlib.suppress(self._sql.dialect.loaded_dbapi.Error):
            self._raw.close()
        self._sql.dispose()
        _sessions.discard(self._session)

    def execute(
        self,
        verb: Verb | VerbName,
        /,
        holes: Mapping[str, str | int] | None = None,
        **parameters: Any,
    ) -> list[Row]:
        """Execute the statements of a verb (an SQL file of the engine) one by one.

        Returns the rows of the last one that has rows; `holes` are values for `{{name}}` in the
        SQL.  Raises Skip if the engine has no such file, ReplayerError if a statement fails.
        """
        verb = self.engine.needs(verb) if isinstance(verb, str) else verb
        rows: list[Row] = []
        for statement in verb.statements(**(holes or {})):
            rows = self.query(statement, parameters, verb=verb.name) or rows
        return rows

    def query(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, verb: str = ""
    ) -> list[Row]:
        """Execute one statement with `:name` parameters; return its rows, [] if it has none.

        `verb` is the name of its SQL file for messages.  Raises ReplayerError if the statement
        fails or `parameters` lacks a value; Denied (a ReplayerError) for a missing right.
        """
        clause = sqlalchemy.text(statement)
        given = parameters or {}
        for name in clause._bindparams:  # noqa: SLF001
            if name not in given:
                begin = f"{self._source(verb)}: " if verb else ""
                raise ReplayerError(f"{begin}nothing was given for :{name}{nearest(name, given)}")
        wanted = {name: given[name] for name in clause._bindparams}  # noqa: SLF001
        try:
            with watchdog.Wait(self._where):
                result = self._connection.execute(clause, wanted)
                rows = result.mappings() if result.returns_rows else ()
                return [Cells(row, self._source(verb)) for row in rows]
        except exc.DBAPIError as error:
            if error.connection_invalidated:
                self._lost = error.orig
            raise self._refusal(error.orig or error, verb) from error
        except exc.PendingRollbackError as error:
            # An earlier statement lost the connection, and its caller ignored that error.
            raise self._refusal(self._lost or error, verb) from error
        except ReplayerError:
            raise
        except Exception as error:
            raise self._refusal(error, verb) from error

    def fetch(self, statement: str, *, verb: str = "") -> list[Row]:
        """Return the rows of a statement without parameters, with a fifth of the CPU of `query`.

        It is for statements that run every second during a measured load.  `verb` is the name of
        the statement's SQL file for messages.  Raises ReplayerError if the statement fails.
        """
        try:
            with watchdog.Wait(self._where), contextlib.closing(self._raw.cursor()) as cursor:
                cursor.execute(statement)
                names = [column[0] for column in cursor.description or ()]
                return [
                    Cells(zip(names, row, strict=True), self._source(verb))
                    for row in (cursor.fetchall() if names else ())
                ]
        except ReplayerError:
            raise
        except Exception as error:
            raise self._refusal(error, verb) from error

    def _source(self, verb: str) -> str:
        """Return the name of a verb's SQL file, as messages show it; "" for no verb."""
        return f"{verb}.sql of {self.engine.title}" if verb else ""

    def _refusal(self, error: BaseException, verb: str) -> ReplayerError:
        """Return the error for a failed statement; raise another if the server is unreachable."""
        watchdog.check(self._where)
        begin = f"{verb}: " if verb else ""
        if not isinstance(
            error, self._sql.dialect.loaded_dbapi.Error | exc.SQLAlchemyError | OSError
        ):
            # An answer that neither the driver nor replayer can interpret.
            what = f"{type(error).__name__}: {one_line(error)}"
            return ReplayerError(f"{begin}what the database answered cannot be read ({what})")
        reason = f"{begin}the database reported: {explain(error)}"
        if self._is_denied(reason):
            return Denied(f"this database user may not do it: {reason}{self._remedy(verb)}")
        return ReplayerError(reason)

    def _is_denied(self, reason: str) -> bool:
        """Return whether a statement failed for a missing right; `reason` is the error message."""
        denied = self.engine.spec.denied
        return denied is not None and denied.search(reason) is not None

    def _remedy(self, verb: str) -> str:
        """Return advice on how to get the right that a verb (an SQL file) needs, "" for none."""
        if verb == _RIGHTS:
            return ""
        with contextlib.suppress(ReplayerError):
            for right in self.rights():
                if right["verb"] == verb and not right["allowed"]:
                    return f" ({right['grants']})"
        return ""

    def rights(self) -> list[Row]:
        """Return the special rights that the engine's SQL files need; [] if it lists none.

        Each row has `verb` (the file), `what` the right is for, `allowed`, `grants` (the remedy).
        """
        verb = self.engine.verb(_RIGHTS)
        return self.execute(verb) if verb is not None else []

    def row(
        self,
        verb: Verb | VerbName,
        /,
        holes: Mapping[str, str | int] | None = None,
        **parameters: Any,
    ) -> Row:
        """Execute a verb (an SQL file of the engine), and return its only row.

        `holes` are values for `{{name}}` in the SQL.  Raises ReplayerError with the name of the SQL
        file if there is not exactly one row, Skip if the engine has no such file.
        """
        rows = self.execute(verb, holes, **parameters)
        if len(rows) != 1:
            found = f"{len(rows)} rows" if rows else "no row"
            source = self._source(str(getattr(verb, "name", verb)))
            raise ReplayerError(
                f"{source}: the database answered with {found}, where one row belongs"
            )
        return rows[0]

    def value(
        self,
        verb: Verb | VerbName,
        /,
        holes: Mapping[str, str | int] | None = None,
        **parameters: Any,
    ) -> Any:
        """Execute a verb (an SQL file); return the first column of its first row, None for no row.

        `holes` are values for `{{name}}` in the SQL.  Raises Skip if the engine has no such file.
        """
        rows = self.execute(verb, holes, **parameters)
        return next(iter(rows[0].values())) if rows else None

    def number(
        self,
        verb: Verb | VerbName,
        /,
        holes: Mapping[str, str | int] | None = None,
        **parameters: Any,
    ) -> int:
        """Execute a verb (an SQL file); return the first column of its only row as an integer.

        `holes` are values for `{{name}}` in the SQL.  Raises ReplayerError if there is not exactly
        one row, or no whole number in it.
        """
        row = self.row(verb, holes, **parameters)
        return row.number(next(iter(row), ""))

    def render(self, statement: str) -> str:
        """Return a statement with `:name` turned into the driver's `%(name)s`, for raw cursors."""
        compiled = sqlalchemy.text(statement).compile(dialect=self._sql.dialect)
        return str(compiled)

    def numbered(self, statement: str, *, by_driver: bool = False) -> tuple[str, tuple[str, ...]]:
        """Return a statement with `:name` in the server's own form, and the names in order.

        `:name` becomes `$1` in PostgreSQL's protocol, `?` in MySQL's, and `%s` for sessions that
        use the driver's cursor.  With `?` and `%s`, a name that is used twice is two parameters.
        """
        own = "" if by_driver else wires.load(self._wire).PARAMETERS
        make: Any = type(self._sql.dialect)
        dialect = make(paramstyle=own or "format")
        compiled: Any = sqlalchemy.text(statement).compile(dialect=dialect)
        return str(compiled), tuple(compiled.positiontup or ())

    @property
    def has_own_sessions(self) -> bool:
        """Return whether replayer has code for a load's sessions that needs no driver's cursor.

        Such code exists for some wires (client protocols), and takes less CPU for a statement.
        """
        return wires.has_own(wires.load(self._wire), "open_session")

    def connector(self) -> Connector:
        """Return a Connector, with which a worker process opens a connection like this one."""
        return connector_of(self.url, self._first)


def sessions() -> frozenset[int]:
    """Return the ids of all database sessions that this process has open as Database objects.

    The ids are those that the servers use.
    """
    return frozenset(_sessions)


def opening() -> int:
    """Return the number of Databases that are connecting now; `sessions` does not include them."""
    return len(_opening)


def connector_of(url: "URL", first: Sequence[str] = ()) -> Connector:
    """Return a Connector: the data with which a worker process opens a connection to a URL.

    Each such connection first executes the statements `first`.
    """
    limited = _limited(url)
    positional, named = url.get_dialect()().create_connect_args(limited)
    assert not positional, "all wires take keywords only"
    # SQLAlchemy adds its objects, such as psycopg's type adapters, which cannot be pickled.
    plain = {name: value for name, value in named.items() if name not in _NOT_PLAIN}
    return Connector(wire_of(url), plain, tuple(first))


def wire_of(url: "URL") -> str:
    """Return the name of a URL's wire (the module of engines/wires for its driver and protocol).

    The wire's dialect is registered with SQLAlchemy.  Raises Impossible if the driver is not
    installed.
    """
    name = wires.name_of(url.drivername)
    wire = wires.load(name)
    driver = wire.DRIVER.partition(".")[0]
    if importlib.util.find_spec(driver) is None:
        package = f"'replayer[{wire.EXTRA}]'" if wire.EXTRA else driver
        raise Impossible(
            f"the driver of {url.get_backend_name()}:// is not installed: pip install {package}"
        )
    _register(url, wire)
    return name


def _register(url: "URL", wire: wires.Wire) -> None:
    """Register the wire's dialect for this URL with SQLAlchemy, which needs one to connect.

    Raises Impossible if the dialect cannot be loaded.
    """
    dialect = wire.DIALECT
    if not dialect:
        with contextlib.suppress(exc.NoSuchModuleError):
            url.get_dialect()
            return
    module, _, name = (dialect or _PLAIN).partition(":")
    sqlalchemy.dialects.registry.register(url.drivername.replace("+", "."), module, name)
    try:
        url.get_dialect()
    except (ImportError, AttributeError, ValueError) as error:
        raise Impossible(
            f"the wire of {url.drivername}:// has DIALECT = {dialect!r}, which cannot be loaded "
            f"({one_line(error)}): write module:class, or leave it out for replayer's own"
        ) from error


def url_of(text: str, engine: Engine) -> "URL":
    """Return the SQLAlchemy URL for a user's URL, with the scheme of the engine's driver.

    The last @ before the host ends the password, which may contain others.  Raises Impossible for
    an invalid URL, without quoting it: any part may be a password.
    """
    text = revealed(text)
    refusal = Impossible(
        f"the database's URL is not like {engine.wire.split('+')[0]}://user@host/database "
        f"(in a password write %40 for @, %3A for :, %2F for /, %3F for ? and %26 for &)"
    )
    scheme, slashes, rest = text.partition("://")
    if slashes and "-" in scheme:  # an engine's name, which is not a scheme to SQLAlchemy
        text = f"{engine.wire}://{rest}"
    try:
        url = sqlalchemy.make_url(_one_at_sign(text))
    except (exc.ArgumentError, ValueError):
        raise refusal from None
    if _unclear(text, url):
        raise refusal
    ours = {
        name: value for name, value in engine.spec.connect.query.items() if name not in url.query
    }
    return url.set(drivername=engine.wire).update_query_dict(ours)


def _one_at_sign(text: str) -> str:
    """Return a URL with %40 for every @ before the last one of user, password and host."""
    scheme, slashes, rest = text.partition("://")
    first, at, after = rest.partition("@")
    path = re.search(r"[/?]|$", after)
    assert path is not None, "every text has an end"
    more, last, host = after[: path.start()].rpartition("@")
    user = f"{first}{at}{more}".replace("@", "%40") if last else first
    return f"{scheme}{slashes}{user}{at}{host}{after[path.start() :]}"


def _unclear(text: str, url: "URL") -> bool:
    """Return whether a part of a password may have been parsed as another part of the URL."""
    rest = text.partition("://")[2]
    path = re.search(r"[/?].*", rest.partition("@")[2], re.DOTALL)
    if ":" in (url.username or "") or "@" in (url.database or ""):
        return True
    if url.password and path and "@" in path[0]:
        return True
    parameters = rest.partition("?")[2].split("&")
    secret = any(SECRET.search(name) for name in url.query)
    return secret and not all("=" in one for one in parameters)


def _limited(url: "URL") -> "URL":
    """Return a URL with time limits, by which a lost server is noticed, and with a safe login.

    A safe login is one in which no other host can read the password.  Parameters that the URL
    itself has are kept.
    """
    wire = wires.load(wire_of(url))
    limits = {**wire.LIMITS, **wire.secure(url.query, url.host)}
    return url.update_query_dict({k: v for k, v in limits.items() if k not in url.query})


def columns(rows: Sequence[Row], name: str) -> list[Any]:
    """Return the values of one column, one value for each row."""
    return [row[name] for row in rows]


__all__ = ["Database", "Row", "Skip", "columns", "show", "url_of"]
