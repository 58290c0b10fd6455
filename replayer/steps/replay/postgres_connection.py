"""One session of a replay in PostgreSQL's protocol: it sends what was captured, and fast.

libpq makes the connection.  From then on, the messages are written and read here.
"""

import contextlib
import ctypes
import functools
import os
import re
import select
import struct
from collections.abc import Callable, Generator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from psycopg import OperationalError, pq

from replayer.engines import login
from replayer.steps.replay import wire_message
from replayer.steps.replay.failures import LOST, ConnectionGone, Refused

_READ = 1 << 16
_FED = 1 << 18
"""Bytes of a file that are sent as one message of COPY."""
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
_PASSING = frozenset({"57P01", "57P02", "57P03"})
"""The server shuts down, has crashed, or cannot take connections now; class 53 are its limits."""
_UNSURE = ("", "08", "XX")
"""Classes of SQLSTATEs that are too general: poolers use them for all their messages."""
_PASSING_WORDS = (
    "too many",
    "starting up",
    "accepting",
    "shutting down",
    "recovery",
    "reserved",
    "slots",
    "no more connections",
    "cannot connect",
)
"""Words in a pooler's message which show that it may take a connection a little later."""
_VERBOSE = 2
_FATAL = re.compile(r":  (?:([0-9A-Z]{5}): )?")
"""The text between the severity, a word in the server's language, and the message."""
_LIBPQ = re.compile(r" (/.*/libpq[-.][^/\n]*)$", re.MULTILINE)


class PostgresConnectionAttempt:
    """An attempt to connect that never blocks."""

    def __init__(self, conninfo: str) -> None:
        """Begin to connect; raise Refused if that fails at once."""
        self._pg = pq.PGconn.connect_start(conninfo.encode())
        set_verbosity = _set_verbosity()
        if set_verbosity is not None:
            # psycopg does not guarantee this attribute, but each of its implementations has it.
            libpq: Any = self._pg
            set_verbosity(libpq.pgconn_ptr, _VERBOSE)
        if self._pg.status == pq.ConnStatus.BAD:
            raise self._refusal()
        self.events = select.EPOLLOUT

    def fileno(self) -> int:
        """Return the socket; libpq may open another one when it tries the next address."""
        return int(self._pg.socket)

    def go_on(self) -> bool:
        """Continue without blocking; return True when the connection is made.  Raises Refused."""
        status = self._pg.connect_poll()
        if status == pq.PollingStatus.FAILED:
            raise self._refusal()
        self.events = select.EPOLLIN if status == pq.PollingStatus.READING else select.EPOLLOUT
        return status == pq.PollingStatus.OK

    def connection(self, verify: str, *, read_only: bool) -> "PostgresConnection":
        """Return the connection that was made.

        With `read_only`, it raises ConnectionGone once its session is no longer read only.
        """
        self._pg.nonblocking = 1
        kind = EncryptedPostgresConnection if self._pg.ssl_in_use else PostgresConnection
        return kind(self._pg, verify, read_only=read_only)

    def close(self) -> None:
        """Give the attempt up and close its socket."""
        self._pg.finish()

    def _refusal(self) -> Refused:
        words = self._pg.error_message.decode("utf-8", "replace").strip()
        self._pg.finish()
        return refusal(words)


@functools.cache
def _set_verbosity() -> Callable[[int | None, int], int] | None:
    """Return PQsetErrorVerbosity of the libpq that psycopg uses; None if it is not found.

    It makes libpq report the SQLSTATE of a refusal.  psycopg has no function for it.
    """
    try:
        (path,) = set(_LIBPQ.findall(Path("/proc/self/maps").read_text(encoding="utf-8")))
        function = ctypes.CDLL(path).PQsetErrorVerbosity
    except (OSError, ValueError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_int)
    made: Callable[[int | None, int], int] = function
    return made


def refusal(words: str) -> Refused:
    """Return a refusal from libpq's message, which may have the server's SQLSTATE or not.

    If the server sent nothing, it may be reachable a little later.
    """
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    fatal = next((line for line in lines if _FATAL.search(line)), "")
    match = _FATAL.search(fatal)
    if match is None:
        first = (lines or ["it said nothing"])[0]
        remedy = login.remedy(first)
        return Refused(f"{first}{remedy}", passing=not remedy)
    code = match[1] or ""
    said = f"{fatal[: match.start()]}:  {fatal[match.end() :]}"
    passing = code in _PASSING or code.startswith("53")
    if code[:2] in _UNSURE:
        passing = passing or any(some in said for some in _PASSING_WORDS)
    return Refused(said, passing=passing)


class PostgresConnection:
    """One connection with at most one statement under way."""

    def __init__(self, pg: Any, verify: str, *, read_only: bool = False) -> None:
        self._pg = pg
        self._read_only = read_only
        self.fd = int(pg.socket)
        self._hashes = verify == "hash"
        self.prepared: dict[bytes, int] = {}
        """Names of prepared statements -> the places of their texts."""
        self.status = _IDLE
        """I: no transaction is open; T: one is open; E: one is open, and it failed."""
        self.sqlstate, self.rows, self.hash = "", -1, 0
        self.matched = -1
        """Of the last complete answer; -1, as this protocol does not report rows matched."""
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
        self._start()

    @property
    def session(self) -> int:
        """Return the number of the session's process in the server."""
        return int(self._pg.backend_pid)

    @property
    def idle(self) -> bool:
        """Return whether no transaction is open."""
        return self.status == _IDLE

    def _start(self) -> None:
        self._error, self._counted, self._sum = "", -1, 0
        self._digest: Any = None

    def send(self, whole: bytes, *, extended: bool, in_order: bool) -> None:
        """Send a message; `flush` sends the bytes that the socket does not take at once."""
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
        """Send Bind, Execute and Sync of a named statement; prepare it first if necessary."""
        whole = wire_message.bind(name, ending) + wire_message.EXECUTE_AND_SYNC
        before = self.prepared.get(name)
        if before != place:
            whole = wire_message.parse(name, text) + whole
            if before is not None:
                whole = wire_message.forget(name) + whole
            self.prepared[name] = place
            self._parsing = name
        self.send(whole, extended=True, in_order=in_order)

    def flush(self) -> None:
        """Send more of the bytes that the socket did not take at once; raise ConnectionGone."""
        try:
            self.unsent = self.unsent[os.write(self.fd, self.unsent) :]
            if not self.unsent and self._fed >= 0:
                self._feed_more()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._last_words(error)

    def _feed_more(self) -> None:
        """Queue the next part of the file to be sent, or CopyDone at its end."""
        data = os.pread(self.feed, _FED, self._fed)
        self._fed += len(data)
        self.unsent += wire_message.copy_data(data) if data else wire_message.COPY_DONE
        if not data:
            self._end_feed()

    def _end_feed(self) -> None:
        """End COPY on the client's side; in the extended protocol, resend the skipped Sync."""
        self._fed = self.feed = -1
        self.unsent += wire_message.SYNC if self._extended else b""

    def _last_words(self, error: OSError) -> None:
        """Read the server's last messages, and raise ConnectionGone with its error code."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        while not self.receive():
            if not poll.poll(0):
                break
        raise ConnectionGone(
            f"the connection broke: {error.strerror}", self.sqlstate or LOST
        ) from error

    def receive(self) -> bool:
        """Read what arrived; return True at the end of the answer.  Raises ConnectionGone."""
        try:
            part = os.read(self.fd, _READ)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise ConnectionGone(
                f"the connection broke: {error.strerror}", self._error or LOST
            ) from error
        if not part:
            raise ConnectionGone("the server closed the connection", self._error or LOST)
        if not self._came:
            known = self._known.get(part)
            if known is not None:
                self.sqlstate, self.rows, self.status = known
                self._parsing = None
                return True
            self._came = part
        elif not self._joined(part):
            return False
        self._place = 0
        return self._read_messages(part)

    def _joined(self, part: bytes) -> bool:
        """Add bytes to an incomplete message; return True if it may be complete now."""
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
            self._error = self._error or _sqlstate(body)
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
            self.unsent += wire_message.COPY_FAIL + (wire_message.SYNC if self._extended else b"")
            self.flush()

    def _finish(self, status: int, whole: bytes) -> None:
        """Mark the answer as complete; cache a short one."""
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
        """Close the connection, with a message to the server if that is possible."""
        self._pg.finish()


class EncryptedPostgresConnection(PostgresConnection):
    """A connection over TLS, whose bytes only libpq can read and write."""

    _STATUS = {  # noqa: RUF012 - never changed
        pq.TransactionStatus.IDLE: _IDLE,
        pq.TransactionStatus.INERROR: ord("E"),
    }

    def send(self, whole: bytes, *, extended: bool, in_order: bool) -> None:
        """Send a message through libpq's functions."""
        self._extended, self._in_order = extended, in_order
        if whole[:1] == b"Q":
            self._do(self._pg.send_query, whole[5:-1])
        else:
            text, ending = wire_message.parts_of(whole)
            self._do(self._pg.send_query_params, text, wire_message.values_of(ending))

    def execute(
        self, name: bytes, place: int, text: bytes, ending: bytes, *, in_order: bool
    ) -> None:
        """Send a named statement; prepare it first if necessary, and block for that answer."""
        self._extended, self._in_order = True, in_order
        before = self.prepared.get(name)
        if before is not None and before != place:
            self._pg.exec_(b'DEALLOCATE "%s"' % name.replace(b'"', b'""'))
        if before != place:
            self.prepared[name] = place
            if self._pg.prepare(name, text).status != pq.ExecStatus.COMMAND_OK:
                self.prepared.pop(name)
                # Run as an unnamed statement, it returns the same error to the client.
                self._do(self._pg.send_query_params, text, wire_message.values_of(ending))
                return
        self._do(self._pg.send_query_prepared, name, wire_message.values_of(ending))

    def _do(self, send: Callable[..., None], *arguments: Any) -> None:
        try:
            send(*arguments)
        except OperationalError as error:
            raise ConnectionGone(str(error), self._error or LOST) from error
        self.unsent = b"\0"
        self.flush()

    def flush(self) -> None:
        """Send more of the bytes that libpq has buffered; raise ConnectionGone."""
        try:
            self.unsent = b"\0" if self._pg.flush() else b""
        except OperationalError as error:
            raise ConnectionGone(str(error), self._error or LOST) from error

    def receive(self) -> bool:
        """Read what arrived; return True at the end of the answer.  Raises ConnectionGone."""
        pg = self._pg
        try:
            pg.consume_input()
            while not pg.is_busy():
                result = pg.get_result()
                if result is None:
                    self._guard()
                    self._finish(self._STATUS.get(pg.transaction_status, ord("T")), b"")
                    return True
                self._take_result(result)
        except OperationalError as error:
            raise ConnectionGone(str(error), self._error or LOST) from error
        return False

    def _guard(self) -> None:
        reported = (self._pg.parameter_status(name) for name in _GUARDS)
        if self._read_only and b"off" in reported:
            raise ConnectionGone("its session is not read only any more", LOST)

    def _put_copy(self) -> None:
        """Give libpq the data of a COPY; libpq buffers it until the server takes it."""
        place = 0
        while self.feed >= 0 and (data := os.pread(self.feed, _FED, place)):
            self._pg.put_copy_data(data)
            place += len(data)
        self._pg.put_copy_end(b"not captured" if self.feed < 0 else None)
        self.feed = -1
        self.unsent = b"\0"
        self.flush()

    def _take_result(self, result: Any) -> None:
        if result.status == pq.ExecStatus.FATAL_ERROR:
            code = result.error_field(pq.DiagnosticField.SQLSTATE) or LOST.encode()
            self._error = self._error or code.decode("ascii", "replace")
            if self._pg.status == pq.ConnStatus.BAD:
                raise ConnectionGone("the server closed the connection", self._error)
        elif result.status == pq.ExecStatus.COPY_IN:
            self._put_copy()
        elif result.status == pq.ExecStatus.COPY_OUT:
            while self._pg.get_copy_data(0)[0] > 0:
                pass
        else:
            self._take_tag(result.command_status or b"")
            if self._hashes:
                for row in range(result.ntuples):
                    cells = [result.get_value(row, column) for column in range(result.nfields)]
                    self._take_row(wire_message.row(cells))


def _sqlstate(body: bytes) -> str:
    """Return the SQLSTATE in the fields of an ErrorResponse."""
    for field in body.split(b"\0"):
        if field[:1] == b"C":
            return field[1:].decode("ascii", "replace")
    return "XX000"


def blocked(conninfo: str, statement: str) -> Generator[list[tuple[int, int]], None, None]:
    """Yield, at each step, pairs of sessions: one that waits for a lock, one that it waits for.

    The generator ends at the first error, also if it cannot connect.
    """
    own = pq.PGconn.connect(conninfo.encode())
    with contextlib.ExitStack() as stack:
        stack.callback(own.finish)
        stack.enter_context(contextlib.suppress(OperationalError))
        while own.status == pq.ConnStatus.OK:
            result = own.exec_(statement.encode())
            if result.status != pq.ExecStatus.TUPLES_OK:
                return
            yield [
                (int(result.get_value(row, 0) or 0), int(result.get_value(row, 1) or 0))
                for row in range(result.ntuples)
            ]
