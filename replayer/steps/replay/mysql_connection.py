"""One session of a replay in MySQL's protocol: statements go out as text, answers come as packets.

PyMySQL makes the connection, in its own thread, because it blocks until the server answers.  From
then on, packets are written and read here.  A packet is as in the MySQL client/server protocol:
3 bytes of length, a sequence number, the payload.
"""

import contextlib
import json
import os
import re
import select
import struct
import threading
from collections.abc import Generator
from hashlib import blake2b
from typing import Any

from replayer.engines import driver
from replayer.engines.server_message import explain
from replayer.steps.replay.failures import LOST, ConnectionGone, Refused

_READ = 1 << 16
_COM_QUERY = b"\x03"
_OK, _FILE, _EOF, _ERR = 0x00, 0xFB, 0xFE, 0xFF
_EOF_BYTES = 9
_LARGEST = 0xFFFFFF
_IN_TRANSACTION, _MORE_RESULTS = 1, 8
_MASK = (1 << 64) - 1
_DEADLOCK = "40001"
_MATCHED = re.compile(rb"Rows matched: (\d+)")
_PASSING = frozenset({1040, 1203, 1226, 2002, 2003, 2006, 2013, 1053})
"""Errors that may pass: too many connections, or a server that is down or shuts down.

The limit of connections may be that of all users or of one user.
"""


def query(text: bytes) -> bytes:
    """Return COM_QUERY for a text; a text of 16 MiB or more takes several packets."""
    rest, number, parts = _COM_QUERY + text, 0, []
    while True:
        part, rest = rest[:_LARGEST], rest[_LARGEST:]
        parts.append(struct.pack("<I", len(part) | number << 24) + part)
        number = (number + 1) & 0xFF
        if len(part) < _LARGEST:
            return b"".join(parts)


def failing(sqlstate: str) -> bytes:
    """Return a query that leaves a transaction as a statement failing with `sqlstate` left it.

    A deadlock rolls back the whole transaction; any other error undoes the statement only.
    """
    return query(b"ROLLBACK" if sqlstate == _DEADLOCK else b"DO 0")


class MySQLConnectionAttempt:
    """An attempt to connect, made by another thread."""

    events = select.EPOLLIN

    def __init__(self, conninfo: str) -> None:
        """Begin to connect.

        `conninfo` is a JSON object of PyMySQL's arguments; its key `first` lists statements to run
        first.  Raises Refused if no descriptor or thread can be created.
        """
        self._arguments = json.loads(conninfo)
        try:
            self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError as error:
            raise Refused(f"no connection can be begun: {error.strerror}", passing=True) from error
        self._made: Any = None
        self._error: Exception | None = None
        self._given_up = False
        self._thread = threading.Thread(target=self._connect, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            os.close(self._bell)
            raise Refused(f"no connection can be begun: {error}", passing=True) from error

    def _connect(self) -> None:
        arguments = dict(self._arguments)
        first = arguments.pop("first", [])
        try:
            made = driver.open_connection("mysql", {**arguments, "autocommit": None})
            with made.cursor() as cursor:
                for statement in first:
                    cursor.execute(statement)
            self._made = made
        except Exception as error:  # noqa: BLE001 - go_on raises it, whatever it is
            self._error = error
        os.eventfd_write(self._bell, 1)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the attempt has succeeded or failed."""
        return self._bell

    def go_on(self) -> bool:
        """Return whether the connection is made; raise Refused if the attempt failed."""
        try:
            os.eventfd_read(self._bell)
        except BlockingIOError:
            return False
        if self._error is not None:
            number = self._error.args[0] if self._error.args else 0
            self.close()
            raise Refused(explain(self._error), passing=number in _PASSING)
        return True

    def connection(self, verify: str, *, read_only: bool) -> "MySQLConnection":
        """Return the connection that was made.

        `read_only` has no effect: this server does not report when a session becomes writable.
        """
        del read_only
        os.close(self._bell)
        return MySQLConnection(self._made, verify)

    def close(self) -> None:
        """Wait for the thread to end; close the descriptor and the connection, if it was made."""
        self._thread.join()
        os.close(self._bell)
        if self._made is not None:
            self._made._force_close()  # noqa: SLF001 - sends no message to the server


class MySQLConnection:
    """One connection with at most one statement under way."""

    def __init__(self, connection: Any, verify: str) -> None:
        self._connection = connection
        self._socket = connection._sock  # noqa: SLF001 - there is no public name for it
        self._socket.setblocking(False)
        self.fd: int = self._socket.fileno()
        self._hashes = verify == "hash"
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
        self._start()

    def _start(self) -> None:
        self._error, self._counted, self._sum = "", -1, 0
        self._matched = -1
        self._digest: Any = None
        self._columns = -1
        """Column descriptions still to come; -1 before an answer, 0 among rows."""
        self._continues = False

    @property
    def session(self) -> int:
        """Return the number of the session in the server."""
        return int(self._connection.thread_id())

    @property
    def idle(self) -> bool:
        """Return whether no transaction is open."""
        return not self._status & _IN_TRANSACTION

    def send(self, whole: bytes, *, extended: bool, in_order: bool) -> None:
        """Send a message; `flush` sends the bytes that the socket does not take at once."""
        del extended
        self._in_order = in_order
        self.unsent = whole
        self.flush()

    def execute(
        self, name: bytes, place: int, text: bytes, ending: bytes, *, in_order: bool
    ) -> None:
        """Send the text as a query: logs of this protocol have statements with their values."""
        del name, place, ending
        self.send(query(text), extended=False, in_order=in_order)

    def flush(self) -> None:
        """Send more of the bytes that the socket did not take at once; raise ConnectionGone."""
        try:
            self.unsent = self.unsent[self._socket.send(self.unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise ConnectionGone(f"the connection broke: {error.strerror or error}") from error

    def receive(self) -> bool:
        """Read what arrived; return True at the end of the answer.  Raises ConnectionGone."""
        try:
            part = self._socket.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise ConnectionGone(
                f"the connection broke: {error.strerror or error}", self._error or LOST
            ) from error
        if not part:
            raise ConnectionGone("the server closed the connection", self._error or LOST)
        self._parts.append(part)
        self._missing -= len(part)
        if self._missing > 0:
            return False
        self._came = b"".join((self._came, *self._parts))
        self._parts.clear()
        return self._read_packets()

    def _read_packets(self) -> bool:
        """Read each packet that arrived; return True if the last one ends the answer."""
        came, place = self._came, 0
        self._missing = 0
        while place + 4 <= len(came):
            size = came[place] | came[place + 1] << 8 | came[place + 2] << 16
            after = place + 4 + size
            if after > len(came):
                self._missing = after - len(came)
                break
            if self._take(came[place + 4 : after], size):
                self._finish()
                return True
            place = after
        self._came = came[place:]
        return False

    def _take(self, payload: bytes, size: int) -> bool:
        """Read one packet; return True if it ends the answer."""
        if self._continues:
            self._continues = size == _LARGEST
            return False
        kind = payload[0] if payload else _OK
        if kind == _ERR:
            state = payload[4:9] if payload[3:4] == b"#" else b"HY000"
            self._error = state.decode("ascii", "replace")
            self._status = self._status if self._error != _DEADLOCK else 0
            return True
        if self._columns < 0:
            return self._take_first(kind, payload)
        if kind == _EOF and size < _EOF_BYTES:
            return self._take_end(payload)
        if self._columns == 0:
            self._take_row(payload)
        self._continues = size == _LARGEST
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

    def _finish(self) -> None:
        self.sqlstate, self.rows = self._error, -1 if self._error else self._counted
        self.matched = self._matched
        digest = self._digest
        self.hash = (
            int.from_bytes(digest.digest(), "little") if digest is not None else self._sum & _MASK
        )
        self._came = b""
        self._start()

    def close(self) -> None:
        """Close the connection; ignore errors."""
        with contextlib.suppress(Exception):
            self._socket.setblocking(True)
            self._connection.close()


def _number(payload: bytes, place: int) -> tuple[int, int]:
    """Return a length-encoded integer, and the offset of the byte after it."""
    first = payload[place]
    if first < _FILE:
        return first, place + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    return int.from_bytes(payload[place + 1 : place + 1 + width], "little"), place + 1 + width


def blocked(conninfo: str, statement: str) -> Generator[list[tuple[int, int]], None, None]:
    """Yield, at each step, pairs of sessions: one that waits for a lock, one that it waits for.

    The generator ends at the first error, also if it cannot connect.
    """
    with contextlib.suppress(Exception):
        arguments = json.loads(conninfo)
        arguments.pop("first", None)
        with contextlib.closing(
            driver.open_connection("mysql", {**arguments, "autocommit": True})
        ) as own:
            while True:
                with own.cursor() as cursor:
                    cursor.execute(statement)
                    rows = cursor.fetchall()
                yield [(int(waits), int(whom)) for waits, whom in rows]
