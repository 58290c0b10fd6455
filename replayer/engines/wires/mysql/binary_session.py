"""Sessions of MySQL's binary protocol."""

import contextlib
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pymysql

from replayer.engines.server_message import explain, explain_bytes
from replayer.engines.wire_session import DriverStatement, Packing, SessionGone, check_refusal

if TYPE_CHECKING:
    import socket

_READ = 1 << 14
_COM_STMT_PREPARE = 0x16
_COM_STMT_EXECUTE = 0x17
_LONGLONG = 8
_OK, _EOF, _ERR = 0x00, 0xFE, 0xFF
_EOF_BYTES = 9
_HEADER = 4


class BinarySession:
    """A session over PyMySQL's connection, with the binary protocol, which PyMySQL lacks.

    Packets are those of the MySQL client/server protocol: 3 bytes of length, a number, the payload.
    """

    packing = Packing("<")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._socket: socket.socket = connection._sock  # noqa: SLF001 - it has no other face
        self._heads: list[bytes] = []
        self._came = b""
        self._error: type[Exception] = pymysql.Error

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare the statements on the server."""
        for statement in statements:
            try:
                number = self._prepare(statement)
            except self._error as error:
                raise SessionGone(f"the database said: {explain(error)}") from error
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
                text = payload[9 if payload[3:4] == b"#" else 3 :]
                check_refusal(str(number), explain_bytes(text))
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
            raise SessionGone(explain(error)) from error

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(self._error):
            self._connection.close()
