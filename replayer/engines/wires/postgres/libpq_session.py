"""Sessions of PostgreSQL's protocol: built here, or by libpq where the connection is encrypted."""

import os
import struct
from collections.abc import Sequence
from typing import Any

import psycopg

from replayer.engines.server_message import explain, explain_bytes
from replayer.engines.wire_session import DriverStatement, Packing, SessionGone, check_refusal
from replayer.engines.wires.postgres.waiting import sleep_soundly

_READ = 1 << 14
_INT8 = 20
"""PostgreSQL's type bigint."""
_PREFIX = struct.pack(">i", 8)
_FINE = frozenset({1, 2})
"""PGRES_COMMAND_OK and PGRES_TUPLES_OK."""


class _Libpq:
    """Functions that both kinds of PostgreSQL sessions leave to psycopg."""

    packing = Packing(">", _PREFIX)

    def __init__(self, connection: Any) -> None:
        sleep_soundly(connection)
        self._connection = connection
        self._pg = connection.pgconn
        self._error: type[Exception] = psycopg.Error

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare the statements on the server."""
        for place, statement in enumerate(statements):
            types = [_INT8] * len(statement.names)
            result = self._pg.prepare(b"r%d" % place, statement.text.encode(), types)
            if result.status not in _FINE:
                raise SessionGone(f"the database said: {explain_bytes(result.error_message)}")

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
            raise SessionGone(explain(error)) from error

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
            raise SessionGone(explain(error)) from error

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
            raise SessionGone(explain(error)) from error
        if result is not None and result.status in _FINE:
            return True
        if result is None:
            raise SessionGone("the connection has no answer")
        check_refusal(
            (result.error_field(ord("C")) or b"").decode(), explain_bytes(result.error_message)
        )
        return None


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


class PlainSession(_Libpq):
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
                check_refusal(
                    by_letter.get(b"C", b"").decode(), explain_bytes(by_letter.get(b"M", b""))
                )
                refused = True
            if kind == _READY:
                self._came = b""
                return None if refused else True
            place = after
        return False
