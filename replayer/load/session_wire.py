"""Sessions that send a prepared statement without waiting; the answer is received later.

There is one class for each driver of engines/driver.py.  They import little, because worker
processes load them.
"""

import contextlib
import os
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from replayer.engines import driver
from replayer.engines.driver import Connector
from replayer.errors import ReplayerError
from replayer.load.requests import DriverStatement, Packing

if TYPE_CHECKING:
    import socket

_AGAIN = frozenset({"40P01", "40001", "1213", "1205"})
"""Error codes of servers that ask for a retry: deadlock, serialization failure, lock timeout."""


class SessionGone(ReplayerError):
    """The server ended a session, or refused its statement."""


class WireSession(Protocol):
    """One connection, with at most one statement under way."""

    packing: Packing

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare the statements; later calls name them by their index."""
        ...

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when data has arrived."""
        ...

    def send(self, place: int, payload: bytes) -> None:
        """Send a statement with its parameters."""
        ...

    def receive(self) -> bool | None:
        """Receive data: True at the answer's end, False before, None if a retry is asked for.

        Raises SessionGone.
        """
        ...

    def execute(self, texts: Sequence[str]) -> None:
        """Execute statements without parameters, one after the other, and wait for each."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def connect(connector: Connector, first: Sequence[str]) -> WireSession:
    """Return a session on which `first` was executed; raise ReplayerError if that fails."""
    connection = driver.connect(connector, *first)
    if connector.module != "psycopg":
        return MySQL(connection)
    return EncryptedSession(connection) if connection.pgconn.ssl_in_use else Postgres(connection)


_INT8 = 20
"""PostgreSQL's type bigint."""
_PREFIX = struct.pack(">i", 8)
_FINE = frozenset({1, 2})
"""PGRES_COMMAND_OK and PGRES_TUPLES_OK."""


class _Libpq:
    """Functions that both kinds of PostgreSQL sessions leave to psycopg."""

    packing = Packing(">", _PREFIX)

    def __init__(self, connection: Any) -> None:
        driver.sleep_soundly(connection)
        self._connection = connection
        self._pg = connection.pgconn
        self._error: type[Exception] = driver.driver_error(Connector("psycopg", {}))

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare the statements on the server."""
        for place, statement in enumerate(statements):
            types = [_INT8] * len(statement.names)
            result = self._pg.prepare(b"r%d" % place, statement.text.encode(), types)
            if result.status not in _FINE:
                raise SessionGone(f"the database said: {_sentence(result.error_message)}")

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return int(self._pg.socket)

    def execute(self, texts: Sequence[str]) -> None:
        """Execute the statements by psycopg."""
        try:
            with self._connection.cursor() as cursor:
                for text in texts:
                    cursor.execute(text)
        except self._error as error:
            raise SessionGone(driver.explain(error)) from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class EncryptedSession(_Libpq):
    """A session over TLS: only libpq can read its bytes; results are binary and not looked at."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._calls: list[tuple[bytes, list[slice], list[int]]] = []

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare the statements on the server."""
        super().prepare(statements)
        for place, statement in enumerate(statements):
            many = len(statement.names)
            parts = [slice(12 * number + 4, 12 * number + 12) for number in range(many)]
            self._calls.append((b"r%d" % place, parts, [1] * many))

    def send(self, place: int, payload: bytes) -> None:
        """Send Bind, Execute and Sync."""
        name, parts, formats = self._calls[place]
        try:
            self._pg.send_query_prepared(name, [payload[part] for part in parts], formats, 1)
        except self._error as error:
            raise SessionGone(driver.explain(error)) from error

    def receive(self) -> bool | None:
        """Receive the data that has arrived; see WireSession."""
        pg = self._pg
        try:
            pg.consume_input()
            if pg.is_busy():
                return False
            result = pg.get_result()
            # The end of the answer arrived together with the result.
            pg.get_result()
        except self._error as error:
            raise SessionGone(driver.explain(error)) from error
        if result is not None and result.status in _FINE:
            return True
        if result is None:
            raise SessionGone("the connection has no answer")
        _check_refusal((result.error_field(ord("C")) or b"").decode(), result.error_message)
        return None


_READ = 1 << 14
_TYPE_AND_LENGTH = struct.Struct(">BI")
_READY = ord("Z")
_REFUSED = ord("E")
_EXECUTE_AND_SYNC = b"E" + struct.pack(">I", 9) + b"\0" + bytes(4) + b"S" + struct.pack(">I", 4)
_ENDS = {
    "point": b"SELECT 1",
    "range": b"SELECT 1",
    "scan": b"SELECT 1",
    "compute": b"SELECT 1",
    "insert": b"INSERT 0 1",
    "update": b"UPDATE 1",
}
"""Last bytes of most answers by kind; any other answer is read message by message."""


class Postgres(_Libpq):
    """A session whose messages are built here, which costs a third less CPU than libpq.

    The messages are those of the chapter Frontend/Backend Protocol: a letter, a length, the
    content.
    """

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._fd = self.fileno()
        self._messages: list[tuple[bytes, bytes, bytes]] = []
        """For each statement: first and last bytes of its message, last bytes of its answer."""
        self._end = self._came = b""

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare the statements on the server, and their messages here."""
        super().prepare(statements)
        for place, statement in enumerate(statements):
            many = len(statement.names)
            name = b"\0r%d\0" % place
            # Parameters and results are binary.
            bind = name + struct.pack(">HHH", 1, 1, many)
            length = 4 + len(bind) + many * 12 + 4
            tag = _ENDS[statement.kind] + b"\0"
            end = b"C" + struct.pack(">I", 4 + len(tag)) + tag + b"Z" + struct.pack(">I", 5) + b"I"
            head = b"B" + struct.pack(">I", length) + bind
            self._messages.append((head, struct.pack(">HH", 1, 1) + _EXECUTE_AND_SYNC, end))

    def send(self, place: int, payload: bytes) -> None:
        """Send Bind, Execute and Sync."""
        head, tail, self._end = self._messages[place]
        message = head + payload + tail
        try:
            if os.write(self._fd, message) != len(message):
                raise SessionGone("the connection takes no whole statement")
        except OSError as error:
            # The server may have sent the reason for which it closes the connection.
            while self.receive() is False:
                pass
            raise SessionGone(f"the connection broke: {error.strerror}") from error

    def receive(self) -> bool | None:
        """Receive the data that has arrived; see WireSession."""
        try:
            part = os.read(self._fd, _READ)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise SessionGone(f"the connection broke: {error.strerror}") from error
        if not part:
            raise SessionGone("the server closed the connection unexpectedly")
        if not self._came and part.endswith(self._end):
            return True
        self._came += part
        return self._by_message()

    def _by_message(self) -> bool | None:
        """Read each message that has arrived, and return their common result as receive() does."""
        place, refused = 0, False
        while place + _TYPE_AND_LENGTH.size <= len(self._came):
            kind, length = _TYPE_AND_LENGTH.unpack_from(self._came, place)
            after = place + 1 + length
            if after > len(self._came):
                return False
            if kind == _REFUSED:
                fields = self._came[place + 5 : after].split(b"\0")
                by_letter = {field[:1]: field[1:] for field in fields}
                _check_refusal(by_letter.get(b"C", b"").decode(), by_letter.get(b"M", b""))
                refused = True
            if kind == _READY:
                self._came = b""
                return None if refused else True
            place = after
        return False


def _check_refusal(code: str, message: bytes) -> None:
    """Raise SessionGone for a refused statement, except for a reason that allows a retry."""
    if code not in _AGAIN:
        raise SessionGone(f"the database said: {_sentence(message)}")


def _sentence(message: bytes) -> str:
    return driver.explain(Exception(message.decode("utf-8", "replace")))


_COM_STMT_PREPARE = 0x16
_COM_STMT_EXECUTE = 0x17
_LONGLONG = 8
_OK, _EOF, _ERR = 0x00, 0xFE, 0xFF
_EOF_BYTES = 9
_HEADER = 4


class MySQL:
    """A session over PyMySQL's connection, with the binary protocol, which PyMySQL lacks.

    Packets are those of the MySQL client/server protocol: 3 bytes of length, a number, the payload.
    """

    packing = Packing("<")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._socket: socket.socket = connection._sock  # noqa: SLF001 - it has no other face
        self._heads: list[bytes] = []
        self._came = b""
        self._error: type[Exception] = driver.driver_error(Connector("pymysql", {}))

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare the statements on the server."""
        for statement in statements:
            try:
                number = self._prepare(statement)
            except self._error as error:
                raise SessionGone(f"the database said: {driver.explain(error)}") from error
            nulls = bytes((len(statement.names) + 7) // 8)
            types = struct.pack("<BB", _LONGLONG, 0) * len(statement.names)
            head = struct.pack("<BIBI", _COM_STMT_EXECUTE, number, 0, 1)
            self._heads.append(head + (nulls + b"\x01" + types if statement.names else b""))

    def _prepare(self, statement: DriverStatement) -> int:
        connection = self._connection
        connection._execute_command(_COM_STMT_PREPARE, statement.text)  # noqa: SLF001
        answer = connection._read_packet().get_all_data()  # noqa: SLF001
        number, columns, parameters = struct.unpack_from("<IHH", answer, 1)
        for described in (parameters, columns):
            for _ in range(described + 1 if described else 0):
                connection._read_packet()  # noqa: SLF001
        return int(number)

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def send(self, place: int, payload: bytes) -> None:
        """Send COM_STMT_EXECUTE; all parameters are integers of 8 bytes."""
        whole = self._heads[place] + payload
        self._came = b""
        try:
            self._socket.sendall(struct.pack("<I", len(whole)) + whole)
        except OSError as error:
            raise SessionGone(f"the connection broke: {error.strerror or error}") from error

    def receive(self) -> bool | None:
        """Receive the data that has arrived, until the answer's last packet; see WireSession."""
        try:
            part = self._socket.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise SessionGone(f"the connection broke: {error.strerror or error}") from error
        if not part:
            raise SessionGone("the server closed the connection")
        self._came = came = self._came + part if self._came else part
        return self._whole(came)

    def _whole(self, came: bytes) -> bool | None:
        """Return whether an answer is complete: OK, an error, or the second EOF of its rows.

        None is an error after which the statement can be retried.
        """
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
        """Execute the statements by PyMySQL."""
        try:
            with self._connection.cursor() as cursor:
                for text in texts:
                    cursor.execute(text)
        except self._error as error:
            raise SessionGone(driver.explain(error)) from error

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(self._error):
            self._connection.close()
