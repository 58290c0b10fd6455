"""Sessions that send a prepared statement and go on: what comes back is taken when it is there.

One class for each driver of engines/driver.py.  They import little: worker processes load them.
"""

import contextlib
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from replayer.engines import driver
from replayer.engines.driver import Connector
from replayer.errors import ReplayerError
from replayer.load.requests import Statement

if TYPE_CHECKING:
    import socket

_INT8 = 20
"""PostgreSQL's type bigint."""
_AGAIN = frozenset({"40P01", "40001", "1213", "1205"})
"""What servers say to one who is to try again: a deadlock, an update that came too late, a lock."""


class Gone(ReplayerError):
    """The server ended a session, or refused its statement."""


class Session(Protocol):
    """One connection, with at most one statement under way."""

    order: str
    """How the wire has the bytes of a number: > or <."""

    def prepare(self, statements: Sequence[Statement]) -> None:
        """Make the statements ready; they are called by their places from then on."""
        ...

    def fileno(self) -> int:
        """Return the descriptor that can be read when something came."""
        ...

    def send(self, place: int, values: list[bytes]) -> None:
        """Send a statement with its parameters."""
        ...

    def receive(self) -> bool | None:
        """Take what came: True at the answer's end, False before, None if it is to be tried again.

        Raises Gone.
        """
        ...

    def execute(self, texts: Sequence[str]) -> None:
        """Execute statements without parameters, one after the other, and wait for each."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def connect(connector: Connector, first: Sequence[str]) -> Session:
    """Return a session on which `first` was executed; raise ReplayerError if there can be none."""
    connection = driver.connect(connector, *first)
    return Postgres(connection) if connector.module == "psycopg" else MySQL(connection)


class Postgres:
    """A session over libpq: binary parameters and results, no row is looked at."""

    order = ">"

    def __init__(self, connection: Any) -> None:
        driver.sleep_soundly(connection)
        self._connection = connection
        self._pg = connection.pgconn
        # As numbers, which a comparison is done with sooner than with an enum.
        self._fine = frozenset({1, 2})
        self._names: list[bytes] = []
        self._formats: list[list[int]] = []
        self._send = self._pg.send_query_prepared
        self._error: type[Exception] = driver.driver_error(Connector("psycopg", {}))

    def prepare(self, statements: Sequence[Statement]) -> None:
        """Prepare them on the server."""
        for place, statement in enumerate(statements):
            name = b"r%d" % place
            types = [_INT8] * len(statement.names)
            result = self._pg.prepare(name, statement.text.encode(), types)
            if result.status not in self._fine:
                raise Gone(f"the database said: {_sentence(result.error_message)}")
            self._names.append(name)
            self._formats.append([1] * len(statement.names))

    def fileno(self) -> int:
        """Return the socket."""
        return int(self._pg.socket)

    def send(self, place: int, values: list[bytes]) -> None:
        """Send Bind, Execute and Sync."""
        try:
            self._send(self._names[place], values, self._formats[place], 1)
        except self._error as error:
            raise Gone(driver.explain(error)) from error

    def receive(self) -> bool | None:
        """Take what came."""
        pg = self._pg
        try:
            pg.consume_input()
            if pg.is_busy():
                return False
            result = pg.get_result()
            # The end of the answer came with the result.
            pg.get_result()
        except self._error as error:
            raise Gone(driver.explain(error)) from error
        if result is not None and result.status in self._fine:
            return True
        if result is None:
            raise Gone("the connection has no answer")
        _check_refusal((result.error_field(ord("C")) or b"").decode(), result.error_message)
        return None

    def execute(self, texts: Sequence[str]) -> None:
        """Execute them by psycopg."""
        try:
            with self._connection.cursor() as cursor:
                for text in texts:
                    cursor.execute(text)
        except self._error as error:
            raise Gone(driver.explain(error)) from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _check_refusal(code: str, message: bytes) -> None:
    """Raise Gone for a statement that was refused for a reason that stays."""
    if code not in _AGAIN:
        raise Gone(f"the database said: {_sentence(message)}")


def _sentence(message: bytes) -> str:
    return driver.explain(Exception(message.decode("utf-8", "replace")))


_COM_STMT_PREPARE = 0x16
_COM_STMT_EXECUTE = 0x17
_LONGLONG = 8
_OK, _EOF, _ERR = 0x00, 0xFE, 0xFF
_EOF_BYTES = 9
_HEADER = 4
_READ = 1 << 16


class MySQL:
    """A session over PyMySQL's connection, with the binary protocol that PyMySQL does not speak.

    Packets as in the MySQL client/server protocol: 3 bytes of length, a number, the payload.
    """

    order = "<"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._socket: socket.socket = connection._sock  # noqa: SLF001 - it has no other face
        self._heads: list[bytes] = []
        self._bound: set[int] = set()
        self._types: list[bytes] = []
        self._came = b""
        self._ends_wanted = 0
        self._seen_first = False
        self._error: type[Exception] = driver.driver_error(Connector("pymysql", {}))

    def prepare(self, statements: Sequence[Statement]) -> None:
        """Prepare them on the server."""
        for statement in statements:
            try:
                number = self._prepare(statement)
            except self._error as error:
                raise Gone(driver.explain(error)) from error
            self._heads.append(struct.pack("<BIBI", _COM_STMT_EXECUTE, number, 0, 1))
            nulls = bytes((len(statement.names) + 7) // 8)
            types = struct.pack("<BB", _LONGLONG, 0) * len(statement.names)
            self._types.append(nulls + b"\x01" + types if statement.names else b"")

    def _prepare(self, statement: Statement) -> int:
        connection = self._connection
        connection._execute_command(_COM_STMT_PREPARE, statement.text)  # noqa: SLF001
        answer = connection._read_packet().get_all_data()  # noqa: SLF001
        number, columns, parameters = struct.unpack_from("<IHH", answer, 1)
        for described in (parameters, columns):
            for _ in range(described + 1 if described else 0):
                connection._read_packet()  # noqa: SLF001
        return int(number)

    def fileno(self) -> int:
        """Return the socket."""
        return self._socket.fileno()

    def send(self, place: int, values: list[bytes]) -> None:
        """Send COM_STMT_EXECUTE; all parameters are whole numbers of 8 bytes."""
        payload = self._heads[place] + self._types[place] + b"".join(values)
        self._came = b""
        try:
            self._socket.sendall(struct.pack("<I", len(payload)) + payload)
        except OSError as error:
            raise Gone(f"the connection broke: {error.strerror or error}") from error

    def receive(self) -> bool | None:
        """Take what came, until the answer's last packet."""
        try:
            part = self._socket.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise Gone(f"the connection broke: {error.strerror or error}") from error
        if not part:
            raise Gone("the server closed the connection")
        self._came = came = self._came + part if self._came else part
        return self._whole(came)

    def _whole(self, came: bytes) -> bool | None:
        """Tell whether an answer came to its end: OK, an error, or the second EOF of some rows."""
        place, ends, length = 0, 0, len(came)
        while place + _HEADER < length:
            size = came[place] | came[place + 1] << 8 | came[place + 2] << 16
            first = came[place + _HEADER]
            after = place + _HEADER + size
            if after > length:
                return False
            if first == _ERR:
                payload = came[place + _HEADER : after]
                number = struct.unpack_from("<H", payload, 1)[0]
                _check_refusal(str(number), payload[9 if payload[3:4] == b"#" else 3 :])
                return None
            if place == 0 and first == _OK:
                return True
            ends += first == _EOF and size < _EOF_BYTES
            if ends == 2:
                return True
            place = after
        return False

    def execute(self, texts: Sequence[str]) -> None:
        """Execute them by PyMySQL."""
        try:
            with self._connection.cursor() as cursor:
                for text in texts:
                    cursor.execute(text)
        except self._error as error:
            raise Gone(driver.explain(error)) from error

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(self._error):
            self._connection.close()
