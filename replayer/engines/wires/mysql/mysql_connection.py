"""One connection in MySQL's protocol, whose packets are written and read here.

PyMySQL only makes the connection.  The statements of a load use the binary protocol, which PyMySQL
lacks.  The statements of a capture are sent as text.
"""

import contextlib
import re
import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import pymysql

from replayer.engines.server_message import explain, explain_bytes
from replayer.engines.wire_session import LOST, ConnectionGone, DriverStatement, Packing
from replayer.engines.wires.mysql.mysql_packet import DEADLOCK, LARGEST, packet

_READ = 1 << 16
_COM_STMT_PREPARE, _COM_STMT_EXECUTE = 0x16, 0x17
_LONGLONG = 8
_OK, _FILE, _EOF, _ERR = 0x00, 0xFB, 0xFE, 0xFF
_EOF_BYTES = 9
_IN_TRANSACTION, _MORE_RESULTS = 1, 8
_SHORT = 96
"""Most bytes of an answer whose meaning is cached: most writes have equal answers."""
_MOST_REMEMBERED = 4096
_MASK = (1 << 64) - 1
_MATCHED = re.compile(rb"Rows matched: (\d+)")


class MySQLConnection:
    """One connection to a MySQL server, with at most one statement under way."""

    packing = Packing("<")

    def __init__(self, connection: Any, *, hashes: bool = False, waits: bool = True) -> None:
        """Take a connection of PyMySQL; with `waits`, its socket blocks, so PyMySQL can use it.

        With `hashes`, the rows of each answer are hashed.
        """
        self._connection = connection
        self._socket: Any = connection._sock  # noqa: SLF001 - it has no public name
        if not waits:
            self._socket.setblocking(False)
        self.fd: int = self._socket.fileno()
        self._hashes = hashes
        self.prepared: dict[bytes, int] = {}
        self.unsent = b""
        self.feed = -1
        self.sqlstate, self.rows, self.hash = "", -1, 0
        self.matched = -1
        self._status = 0
        self._came = b""
        self._parts: list[bytes] = []
        """Parts of a packet that is not complete yet, received after `_came`."""
        self._missing = 0
        self._in_order = False
        self._known: dict[bytes, tuple[int, int, int]] = {}
        self._packed: list[tuple[bytes, bytes | tuple[()]]] = []
        """For each statement of a load: the beginning of its message, the end of most answers."""
        self._end: bytes | tuple[()] = ()
        """Last bytes of most answers to the statement under way; other answers are parsed."""
        self._refused = b""
        """The packet of the last error."""
        self._start()

    def _start(self) -> None:
        self._error, self._counted, self._sum = "", -1, 0
        self._matched = -1
        self._digest: Any = None
        self._columns = -1
        """Column descriptions that are still to come; -1 before a result, 0 when rows follow."""
        self._continues = False

    @property
    def session(self) -> int:
        """Return the number of the session in the server."""
        return int(self._connection.thread_id())

    @property
    def idle(self) -> bool:
        """Return whether no transaction is open."""
        return not self._status & _IN_TRANSACTION

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self.fd

    def refusal(self) -> tuple[str, str]:
        """Return the number and the message of the last answer that has an error."""
        number = int.from_bytes(self._refused[1:3], "little")
        return str(number), explain_bytes(self._refused[9 if self._refused[3:4] == b"#" else 3 :])

    def run(self, texts: Sequence[str]) -> None:
        """Execute statements by PyMySQL, one after the other, and wait for each.

        Raises ConnectionGone if one fails.
        """
        try:
            with self._connection.cursor() as cursor:
                for text in texts:
                    cursor.execute(text)
        except pymysql.Error as error:
            raise ConnectionGone(explain(error)) from error

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare a load's statements on the server, and build the messages that execute them."""
        for statement in statements:
            try:
                number, columns = self._prepare(statement.text)
            except pymysql.Error as error:
                raise ConnectionGone(f"the database reported: {explain(error)}") from error
            many = len(statement.names)
            begin = struct.pack("<BIBI", _COM_STMT_EXECUTE, number, 0, 1)
            if many:
                begin += bytes((many + 7) // 8) + b"\x01" + struct.pack("<BB", _LONGLONG, 0) * many
            length = struct.pack("<I", len(begin) + 8 * many)
            # After one row: the number of columns, each of them, an EOF, the row, and an EOF.
            end = packet(b"\xfe\0\0\2\0", columns + 4 & 0xFF)
            self._packed.append((length + begin, end if columns else ()))

    def _prepare(self, text: str) -> tuple[int, int]:
        """Prepare a statement; return its number and the number of its columns."""
        connection = self._connection
        connection._execute_command(_COM_STMT_PREPARE, text)  # noqa: SLF001
        answer = connection._read_packet().get_all_data()  # noqa: SLF001
        number, columns, parameters = struct.unpack_from("<IHH", answer, 1)
        for described in (parameters, columns):
            for _ in range(described + 1 if described else 0):
                connection._read_packet()  # noqa: SLF001
        return number, columns

    def send_prepared(self, place: int, payload: bytes) -> None:
        """Execute the prepared statement with the index `place` (COM_STMT_EXECUTE).

        `payload` are its packed parameters.  Raises ConnectionGone.
        """
        begin, self._end = self._packed[place]
        try:
            self._socket.sendall(begin + payload)
        except OSError as error:
            raise self._gone(error) from error

    def send(self, whole: bytes, *, extended: bool, in_order: bool) -> None:
        """Send the message `whole`; `flush` sends the bytes that the socket does not take at once.

        `extended` has no effect.  `in_order` is True if the hash of the answer's rows is to depend
        on their order.  Raises ConnectionGone.
        """
        del extended
        self._in_order = in_order
        self.unsent = whole
        self.flush()

    def execute(
        self, name: bytes, place: int, text: bytes, ending: bytes, *, in_order: bool
    ) -> None:
        """Raise NotImplementedError: no log of this protocol has a statement without its values."""
        raise NotImplementedError

    def flush(self) -> None:
        """Send more of the bytes that the socket did not take at once.

        Raises ConnectionGone if the connection is lost.
        """
        try:
            self.unsent = self.unsent[self._socket.send(self.unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise self._gone(error) from error

    def _gone(self, error: OSError) -> ConnectionGone:
        return ConnectionGone(
            f"the connection broke: {error.strerror or error}", self._error or LOST
        )

    def receive(self) -> bool:
        """Read the bytes that arrived; return True if the answer is complete, else False.

        Raises ConnectionGone if the connection is lost.
        """
        try:
            part = self._socket.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise self._gone(error) from error
        if not part:
            raise ConnectionGone("the server closed the connection", self._error or LOST)
        if self._columns < 0 and self._counted < 0 and not self._came:
            if part.endswith(self._end):
                self.sqlstate = ""
                return True
            known = self._known.get(part)
            if known is not None:
                self.sqlstate, self.hash = "", 0
                self.rows, self.matched, self._status = known
                return True
        self._parts.append(part)
        self._missing -= len(part)
        if self._missing > 0:
            return False
        self._came = b"".join((self._came, *self._parts))
        self._parts.clear()
        return self._read_packets()

    def _read_packets(self) -> bool:
        """Read each packet that arrived; return True if the last one ends the answer."""
        came, place, whole = self._came, 0, self._counted < 0 > self._columns
        self._missing = 0
        while place + 4 <= len(came):
            size = came[place] | came[place + 1] << 8 | came[place + 2] << 16
            after = place + 4 + size
            if after > len(came):
                self._missing = after - len(came)
                break
            if self._take(came[place + 4 : after], size):
                self._finish(came if whole else b"")
                return True
            place = after
        self._came = came[place:]
        return False

    def _take(self, payload: bytes, size: int) -> bool:
        """Read one packet of an answer, which has `size` bytes; return True if it is the last."""
        if self._continues:
            self._continues = size == LARGEST
            return False
        kind = payload[0] if payload else _OK
        if kind == _ERR:
            self._refused = payload
            state = payload[4:9] if payload[3:4] == b"#" else b"HY000"
            self._error = state.decode("ascii", "replace")
            self._status = self._status if self._error != DEADLOCK else 0
            return True
        if self._columns < 0:
            return self._take_first(kind, payload)
        if kind == _EOF and size < _EOF_BYTES:
            return self._take_end(payload)
        if self._columns == 0:
            self._take_row(payload)
        self._continues = size == LARGEST
        return False

    def _take_first(self, kind: int, payload: bytes) -> bool:
        if kind == _OK:
            changed, place = _number(payload, 1)
            _, place = _number(payload, place)
            self._counted = max(0, self._counted) + changed
            self._status = struct.unpack_from("<H", payload, place)[0]
            if match := _MATCHED.search(payload, place + 4):
                self._matched = int(match[1])
            return not self._status & _MORE_RESULTS
        if kind == _FILE:
            # The data of LOAD DATA LOCAL were not captured: send an empty packet, which ends them.
            self.unsent += struct.pack("<I", 2 << 24)
            self.flush()
            return False
        self._columns = _number(payload, 0)[0]
        return False

    def _take_end(self, payload: bytes) -> bool:
        if self._columns:
            self._columns = 0
            self._counted = max(0, self._counted)
            return False
        self._status = struct.unpack_from("<H", payload, 3)[0]
        self._columns = -1
        return not self._status & _MORE_RESULTS

    def _take_row(self, payload: bytes) -> None:
        self._counted += 1
        if not self._hashes:
            return
        if self._in_order:
            if self._digest is None:
                self._digest = blake2b(digest_size=8)
            self._digest.update(payload)
        else:
            self._sum += int.from_bytes(blake2b(payload, digest_size=8).digest(), "little")

    def _finish(self, whole: bytes) -> None:
        """Set the attributes for a complete answer; remember the result of a short one.

        `whole` are the bytes of the answer, b"" if they are not known in one piece.
        """
        self.sqlstate, self.rows = self._error, -1 if self._error else self._counted
        self.matched = self._matched
        digest = self._digest
        self.hash = (
            int.from_bytes(digest.digest(), "little") if digest is not None else self._sum & _MASK
        )
        short = whole and len(whole) <= _SHORT and not self.hash
        if short and not self._error and len(self._known) < _MOST_REMEMBERED:
            self._known[whole] = (self.rows, self.matched, self._status)
        self._came = b""
        self._start()

    def close(self) -> None:
        """Close the connection; ignore errors."""
        with contextlib.suppress(Exception):
            self._socket.setblocking(True)
            self._connection.close()


def _number(payload: bytes, place: int) -> tuple[int, int]:
    """Return the length-encoded integer at the offset `place`, and the offset after it."""
    first = payload[place]
    if first < _FILE:
        return first, place + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    return int.from_bytes(payload[place + 1 : place + 1 + width], "little"), place + 1 + width
