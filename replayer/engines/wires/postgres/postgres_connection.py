"""One connection in PostgreSQL's protocol, whose messages are written and read here.

libpq only makes the connection: to write and read the messages here takes a third less CPU.
"""

import os
import select
import struct
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

from psycopg import OperationalError, pq

from replayer.engines.server_message import explain_bytes
from replayer.engines.wire_session import LOST, ConnectionGone, DriverStatement
from replayer.engines.wires.postgres import postgres_message

_READ = 1 << 16
_FED = 1 << 18
"""Bytes of a file that are sent as one message of COPY."""
_NOT_CAPTURED, _UNREADABLE = b"not captured", b"the file with its data cannot be read"
_HEAD = struct.Struct(">BI")
_SHORT = 96
"""Most bytes of an answer whose meaning is cached: most writes have equal answers."""
_MOST_REMEMBERED = 4096
_ERROR, _READY, _ROW, _COMPLETE = b"EZDC"
_COPY_IN, _PARSED, _SETTING = ord("G"), ord("1"), ord("S")
_GUARDS = (b"default_transaction_read_only", b"standard_conforming_strings")
"""Settings that the server reports.

They show whether the session is read only, and whether the server reads strings as replayer does.
"""
_WRITABLE = tuple(b"%s\0off" % name for name in _GUARDS)
_IDLE = ord("I")
_MASK = (1 << 64) - 1
_INT8 = 20
"""PostgreSQL's type bigint."""
_FINE = frozenset({pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK})
_TAGS = {"insert": b"INSERT 0 1", "update": b"UPDATE 1"}
"""Kind of a load's statement -> its usual command tag; other kinds have SELECT 1."""


class PostgresConnection:
    """One connection to a PostgreSQL server, with at most one statement under way."""

    packing = postgres_message.PACKING

    def __init__(
        self,
        pg: Any,
        close: Callable[[], None],
        *,
        hashes: bool = False,
        read_only: bool = False,
    ) -> None:
        """Take a connection of libpq, and the function that closes it.

        With `hashes`, the rows of each answer are hashed.  With `read_only`, ConnectionGone is
        raised once the server reports that the session is no longer read only.
        """
        self._pg, self._close = pg, close
        self._hashes, self._read_only = hashes, read_only
        self.fd = int(pg.socket)
        self.prepared: dict[bytes, int] = {}
        """Name of a prepared statement -> the `place` with which `execute` prepared it."""
        self.status = _IDLE
        """I: no transaction is open; T: one is open; E: one is open, and it failed."""
        self.sqlstate, self.rows, self.hash = "", -1, 0
        self.matched = -1
        """Always -1: this protocol does not report how many rows an UPDATE matched."""
        self.unsent = b""
        self.feed = -1
        self._fed = -1
        """Bytes of the file `feed` sent so far; -1 if the server has not asked for data."""
        self._came = b""
        self._place = 0
        self._parts: list[bytes] = []
        """Parts of a message that is not complete yet, received after `_came`."""
        self._missing = 0
        self._extended = self._in_order = False
        self._parsing: bytes | None = None
        self._known: dict[bytes, tuple[str, int, int]] = {}
        self._packed: list[tuple[bytes, bytes, bytes]] = []
        """For each statement of a load: beginning and end of its message, end of most answers."""
        self._end: bytes | tuple[()] = ()
        """Last bytes of most answers to the statement under way; other answers are parsed."""
        self._message = b""
        """The server's message of the last error."""
        self._start()

    @property
    def session(self) -> int:
        """Return the process id of the session in the server."""
        return int(self._pg.backend_pid)

    @property
    def idle(self) -> bool:
        """Return whether no transaction is open."""
        return self.status == _IDLE

    def _start(self) -> None:
        self._error, self._counted, self._sum = "", -1, 0
        self._digest: Any = None

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self.fd

    def refusal(self) -> tuple[str, str]:
        """Return the SQLSTATE and the message of the last answer that has an error."""
        return self.sqlstate, explain_bytes(self._message)

    def run(self, texts: Sequence[str]) -> None:
        """Execute statements without parameters, one after the other, and wait for each.

        Raises ConnectionGone if one fails.
        """
        for text in texts:
            self._check(self._pg.exec_(text.encode()))

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Prepare a load's statements on the server, and build the messages that execute them."""
        for place, statement in enumerate(statements):
            name, many = b"r%d" % place, len(statement.names)
            self._check(self._pg.prepare(name, statement.text.encode(), [_INT8] * many))
            end = postgres_message.end_of_answer(_TAGS.get(statement.kind, b"SELECT 1"))
            self._packed.append((*postgres_message.bind_packed(name, many), end))

    @staticmethod
    def _check(result: Any) -> None:
        if result.status not in _FINE:
            raise ConnectionGone(f"the database reported: {explain_bytes(_message_of(result))}")

    def send_prepared(self, place: int, payload: bytes) -> None:
        """Send the prepared statement with the index `place`; `payload` are its packed parameters.

        Raises ConnectionGone.
        """
        begin, ending, self._end = self._packed[place]
        message = begin + payload + ending
        try:
            if os.write(self.fd, message) != len(message):
                raise ConnectionGone("the connection takes no whole statement")
        except OSError as error:
            self._last_words(error)

    def send(self, whole: bytes, *, extended: bool, in_order: bool) -> None:
        """Send the message `whole`; `flush` sends the bytes that the socket does not take at once.

        `extended` is True for messages of the extended query protocol.  `in_order` is True if the
        hash of the answer's rows is to depend on their order.  Raises ConnectionGone.
        """
        self._extended, self._in_order = extended, in_order
        if self.unsent:
            # It is the rest of the data of a COPY that failed.
            whole = self.unsent + whole
            self.unsent = b""
        try:
            sent = os.write(self.fd, whole)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._last_words(error)
        if sent != len(whole):
            self.unsent = whole[sent:]

    def execute(
        self, name: bytes, place: int, text: bytes, ending: bytes, *, in_order: bool
    ) -> None:
        """Send Bind, Execute and Sync of a named statement; prepare it first if necessary.

        `place` is a number that identifies its `text`, and `ending` has the packed values.
        `in_order` is True if the hash of the answer's rows is to depend on their order.
        """
        whole = postgres_message.bind(name, ending) + postgres_message.EXECUTE_AND_SYNC
        if self.prepared.get(name) != place:
            # The server may have one of that name, and has no error for one that it does not have.
            first = postgres_message.forget(name) + postgres_message.parse(name, text)
            whole = first + whole
            self.prepared[name] = place
            self._parsing = name
        self.send(whole, extended=True, in_order=in_order)

    def flush(self) -> None:
        """Send more of the bytes that the socket did not take at once.

        Raises ConnectionGone if the connection is lost.
        """
        try:
            self.unsent = self.unsent[os.write(self.fd, self.unsent) :]
            if not self.unsent and self._fed >= 0:
                self._feed_more()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._last_words(error)

    def _next_part(self) -> bytes | None:
        """Return the next part of the file for COPY, b"" at its end, None if it cannot be read."""
        try:
            data = os.pread(self.feed, _FED, self._fed)
        except OSError:
            return None
        self._fed += len(data)
        return data

    def _feed_more(self) -> None:
        """Queue the next part of the file for COPY to be sent; at its end, the end of COPY."""
        data = self._next_part()
        if data:
            self.unsent += postgres_message.copy_data(data)
            return
        failed = data is None
        self.unsent += (
            postgres_message.copy_fail(_UNREADABLE) if failed else postgres_message.COPY_DONE
        )
        self._end_feed()

    def _end_feed(self) -> None:
        """Mark the data of COPY as sent; queue Sync again if the server skipped the first Sync."""
        self._fed = self.feed = -1
        self.unsent += postgres_message.SYNC if self._extended else b""

    def _last_words(self, error: OSError) -> None:
        """Read a broken connection's last messages; raise ConnectionGone with the server's code."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        while not self.receive():
            if not poll.poll(0):
                break
        raise ConnectionGone(
            f"the connection broke: {error.strerror}", self.sqlstate or LOST
        ) from error

    def _gone(self, why: str) -> ConnectionGone:
        """Return the error for a lost connection: the server's last error, or else `why`."""
        why = f"the database reported: {explain_bytes(self._message)}" if self._error else why
        return ConnectionGone(why, self._error or LOST)

    def receive(self) -> bool:
        """Read the bytes that arrived; return True if the answer is complete, else False.

        Raises ConnectionGone if the connection is lost.
        """
        try:
            part = os.read(self.fd, _READ)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise self._gone(f"the connection broke: {error.strerror}") from error
        if not part:
            raise self._gone("the server closed the connection unexpectedly")
        if not self._came:
            if part.endswith(self._end):
                self.sqlstate = ""
                return True
            known = self._known.get(part)
            if known is not None:
                self.sqlstate, self.rows, self.status = known
                self._parsing, self.hash = None, 0
                return True
            self._came = part
        elif not self._joined(part):
            return False
        self._place = 0
        return self._read_messages(part)

    def _joined(self, part: bytes) -> bool:
        """Add received bytes to an incomplete message; return False if more of it must come."""
        self._parts.append(part)
        self._missing -= len(part)
        if self._missing > 0:
            return False
        self._came = b"".join((self._came[self._place :], *self._parts))
        self._parts.clear()
        return True

    def _read_messages(self, part: bytes) -> bool:
        """Read each message that arrived; return True if the last one ends the answer."""
        came, place, head = self._came, 0, _HEAD.unpack_from
        last = len(came) - 5
        self._missing = 0
        while place <= last:
            kind, length = head(came, place)
            after = place + 1 + length
            if after > len(came):
                self._missing = after - len(came)
                break
            if kind == _ROW:
                if self._hashes:
                    self._take_row(came[place:after])
            elif kind == _COMPLETE:
                self._take_tag(came[place + 5 : after - 1])
            elif kind == _READY:
                self._finish(came[after - 1], part if came is part else b"")
                return True
            else:
                self._take_other(kind, came[place + 5 : after])
            place = after
        self._place = place
        return False

    def _take_row(self, row: bytes) -> None:
        if self._in_order:
            if self._digest is None:
                self._digest = blake2b(digest_size=8)
            self._digest.update(row)
        else:
            self._sum += int.from_bytes(blake2b(row, digest_size=8).digest(), "little")

    def _take_tag(self, tag: bytes) -> None:
        """Count the rows of a command tag such as SELECT 5, INSERT 0 1 and UPDATE 3."""
        count = tag.rpartition(b" ")[2]
        if count.isdigit():
            self._counted = max(0, self._counted) + int(count)

    def _take_other(self, kind: int, body: bytes) -> None:
        if kind == _ERROR:
            self._take_error(body)
            if self._fed >= 0:
                self._end_feed()
                self.flush()
            if self._parsing is not None:
                self.prepared.pop(self._parsing, None)
        elif kind == _PARSED:
            self._parsing = None
        elif kind == _SETTING and self._read_only and body.startswith(_WRITABLE):
            raise ConnectionGone("its session is not read only any more", LOST)
        elif kind == _COPY_IN and self.feed >= 0:
            self._fed = 0
            self._feed_more()
            self.flush()
        elif kind == _COPY_IN:
            # In the extended protocol the server has skipped the Sync that came before.
            self.unsent += postgres_message.copy_fail(_NOT_CAPTURED) + (
                postgres_message.SYNC if self._extended else b""
            )
            self.flush()

    def _take_error(self, body: bytes) -> None:
        """Keep the SQLSTATE and the message of an answer's first ErrorResponse."""
        if not self._error:
            fields = {field[:1]: field[1:] for field in body.split(b"\0")}
            self._error = fields.get(b"C", b"XX000").decode("ascii", "replace")
            self._message = fields.get(b"M", b"")

    def _finish(self, status: int, whole: bytes) -> None:
        """Set the attributes for a complete answer; remember the result of a short one.

        `status` is the byte of ReadyForQuery: I, T or E.  `whole` are the bytes of the answer, b""
        if they did not arrive in one piece.
        """
        self.sqlstate, self.rows, self.status = self._error, self._counted, status
        digest = self._digest
        self.hash = (
            int.from_bytes(digest.digest(), "little") if digest is not None else self._sum & _MASK
        )
        short = whole and len(whole) <= _SHORT and not self.hash and self._parsing is None
        if short and not self._error and len(self._known) < _MOST_REMEMBERED:
            self._known[whole] = (self.sqlstate, self.rows, status)
        self._came = b""
        self._parsing = None
        self.feed = -1
        self._start()

    def close(self) -> None:
        """Close the connection; the server is informed if that is possible."""
        self._close()


class EncryptedPostgresConnection(PostgresConnection):
    """A connection over TLS, whose bytes only libpq can read and write."""

    _STATUS = {  # noqa: RUF012 - never changed
        pq.TransactionStatus.IDLE: _IDLE,
        pq.TransactionStatus.INERROR: ord("E"),
    }

    def send(self, whole: bytes, *, extended: bool, in_order: bool) -> None:
        """Send the message `whole` by libpq, which takes its parts and encrypts them.

        `in_order` is True if the hash of the answer's rows is to depend on their order.
        """
        self._extended, self._in_order = extended, in_order
        if whole[:1] == b"Q":
            self._do(self._pg.send_query, whole[5:-1])
        else:
            text, ending = postgres_message.parts_of(whole)
            self._do(self._pg.send_query_params, text, postgres_message.values_of(ending))

    def execute(
        self, name: bytes, place: int, text: bytes, ending: bytes, *, in_order: bool
    ) -> None:
        """Send a named statement; prepare it first if necessary, and block for that answer.

        `place` is a number that identifies its `text`, and `ending` has the packed values.
        `in_order` is True if the hash of the answer's rows is to depend on their order.
        """
        self._extended, self._in_order = True, in_order
        before = self.prepared.get(name)
        if before is not None and before != place:
            self._pg.exec_(b'DEALLOCATE "%s"' % name.replace(b'"', b'""'))
        if before != place:
            self.prepared[name] = place
            if self._pg.prepare(name, text).status != pq.ExecStatus.COMMAND_OK:
                self.prepared.pop(name)
                # Run as an unnamed statement, it returns the same error to the client.
                self._do(self._pg.send_query_params, text, postgres_message.values_of(ending))
                return
        self._do(self._pg.send_query_prepared, name, postgres_message.values_of(ending))

    def send_prepared(self, place: int, payload: bytes) -> None:
        """Send the prepared statement with the index `place` by libpq.

        `payload` are its packed parameters.  Its parameters and the rows of its answer are binary.
        """
        values = postgres_message.unpack(payload)
        self._do(self._pg.send_query_prepared, b"r%d" % place, values, [1] * len(values), 1)

    def _do(self, send: Callable[..., None], *arguments: Any) -> None:
        try:
            send(*arguments)
        except OperationalError as error:
            raise self._gone(str(error)) from error
        self.unsent = b"\0"
        self.flush()

    def flush(self) -> None:
        """Send more of the bytes that libpq has buffered.

        Raises ConnectionGone if the connection is lost.
        """
        try:
            self.unsent = b"\0" if self._pg.flush() else b""
            if not self.unsent and self._fed >= 0:
                self._feed_more()
        except OperationalError as error:
            raise self._gone(str(error)) from error

    def receive(self) -> bool:
        """Read the bytes that arrived; return True if the answer is complete, else False.

        Raises ConnectionGone if the connection is lost.
        """
        pg = self._pg
        try:
            pg.consume_input()
            # libpq repeats the request for data until all of it was given.
            while self._fed < 0 and not pg.is_busy():
                result = pg.get_result()
                if result is None:
                    self._guard()
                    self._finish(self._STATUS.get(pg.transaction_status, ord("T")), b"")
                    return True
                self._take_result(result)
        except OperationalError as error:
            raise self._gone(str(error)) from error
        return False

    def _guard(self) -> None:
        if self._read_only and b"off" in map(self._pg.parameter_status, _GUARDS):
            raise ConnectionGone("its session is not read only any more", LOST)

    def _feed_more(self) -> None:
        """Give libpq the next part of the file for COPY, or the end; libpq then sends it."""
        data = self._next_part()
        if data:
            self._pg.put_copy_data(data)
        else:
            self._pg.put_copy_end(_UNREADABLE if data is None else None)
            self._fed = self.feed = -1
        self.unsent = b"\0"

    def _begin_copy(self) -> None:
        if self.feed >= 0:
            self._fed = 0
            self._feed_more()
        else:
            self._pg.put_copy_end(_NOT_CAPTURED)
        self.flush()

    def _take_result(self, result: Any) -> None:
        if result.status == pq.ExecStatus.FATAL_ERROR:
            if not self._error:
                code = result.error_field(pq.DiagnosticField.SQLSTATE) or LOST.encode()
                self._error = code.decode("ascii", "replace")
                self._message = _message_of(result)
            if self._pg.status == pq.ConnStatus.BAD:
                raise self._gone("the server closed the connection")
        elif result.status == pq.ExecStatus.COPY_IN:
            self._begin_copy()
        elif result.status == pq.ExecStatus.COPY_OUT:
            while self._pg.get_copy_data(0)[0] > 0:
                pass
        else:
            self._take_tag(result.command_status or b"")
            if self._hashes:
                for row in range(result.ntuples):
                    cells = [result.get_value(row, column) for column in range(result.nfields)]
                    self._take_row(postgres_message.row(cells))


def _message_of(result: Any) -> bytes:
    """Return the server's error message in a result of libpq, else the message of libpq."""
    own: bytes | None = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
    return own or result.error_message or b""
