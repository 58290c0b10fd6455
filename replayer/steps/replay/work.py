"""The data given to worker processes: actions as they are sent, and settings of a process."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replayer.engines.driver import Connector
from replayer.steps.replay.commit_order import Shared
from replayer.watch.workers import Descriptor

WHOLE, NAMED, CONNECT, DISCONNECT = range(4)
"""Kinds of records; a record is one action of a session.

WHOLE: its payload is all that is sent.  NAMED: its payload is the end of the Bind of a named
statement.  CONNECT and DISCONNECT have no payload.
"""
IN_ORDER, FORGETS, EXTENDED, IMPOSED = 1, 2, 4, 8
"""Flags of a record.

IN_ORDER: the rows of the answer have an order.  FORGETS: the statement removes prepared statements
from its session.  EXTENDED: it uses the extended protocol.  IMPOSED: the payload replaces a
statement that failed in the log, and fails in its place.
"""
FED = 8
"""Number of flag bits below the number of a file: `flags >> FED` is that number, or 0 for none.

The file has the data that the action sends.  It is one of `ReplayJob.feeds`, counted from 1.
"""
PARTS = 64
"""Number of equal parts of a capture's time; answers are summed up for each of the parts."""


class Record(NamedTuple):
    """One action of a session, as it is stored in the spool: the file with the plan of a replay.

    `payload` are the bytes to send.  `needs`, `ends`, `chain` and `turn` are its place in the order
    of commits, as in CommitPlace; -1 if it has none.
    """

    does: int
    """The kind of the record, such as WHOLE or CONNECT."""
    fingerprint: int
    """Index in the list of all fingerprints; -1 if the action is not a statement."""
    payload: bytes
    start_ns: int
    """Intended start, in ns since the begin of the replay."""
    needs: int
    ends: int
    chain: int
    turn: int
    logged: int
    """SQLSTATE in the log, as a number."""
    named: int
    """Index of the named prepared statement in `ReplayJob.prepared`; -1 if it uses none."""
    flags: int
    rows: int
    """Rows in the log; -1 if the log has none that can be compared with an answer's."""
    part: int
    """Number of the part of the capture's time (see PARTS) in which it started."""
    source_ns: int = -1
    """Its duration in the log, in ns; -1 if the log has none, or the statement failed there."""


class Prepared(NamedTuple):
    """A named prepared statement: its name, and its SQL text, both encoded for the server."""

    name: bytes
    text: bytes


Place = tuple[int, int]
"""Offset and length of a session's records in the spool; length 0 means none."""
NOWHERE: Place = (0, 0)
_UNKNOWN = -1


class SessionWork(NamedTuple):
    """The work of one captured session; `conninfo` is the connection string that it uses.

    `number` is the session's number in the capture.
    """

    number: int
    conninfo: str
    first: Place
    """Place of its first records."""
    before: bool
    """True if the session already exists when the replay begins."""


@dataclass(eq=False)
class SessionColumns:
    """Sessions in the order in which they begin, as columns: there may be millions."""

    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    begins: "array[int]" = field(default_factory=lambda: array("q"))
    """Intended start of the first action of each, in ns since the begin of the replay."""
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    """`offsets` and `lengths`: the place of each session's first records in the spool, in bytes."""
    lengths: "array[int]" = field(default_factory=lambda: array("q"))
    before: bytearray = field(default_factory=bytearray)
    conninfo: "array[int]" = field(default_factory=lambda: array("l"))
    conninfos: dict[str, int] = field(default_factory=dict)
    """Conninfo -> its number; each distinct conninfo is stored once."""

    def add(self, number: int, conninfo: str, *, before: bool) -> int:
        """Add the next session, and return its place: its index from 0.

        `number` is the session's number in the capture, `conninfo` its connection string.
        `before` is True for a session that was open when the log began: it connects before the
        clock starts.
        """
        self.numbers.append(number)
        self.begins.append(_UNKNOWN)
        self.offsets.append(0)
        self.lengths.append(0)
        self.before.append(before)
        self.conninfo.append(self.conninfos.setdefault(conninfo, len(self.conninfos)))
        return len(self.numbers) - 1

    def begin(self, place: int, start_ns: int) -> None:
        """Set the intended start of a session's first action, in ns since the begin of the replay.

        `place` is the index of the session here.  Only the first call for a session counts.
        """
        if self.begins[place] == _UNKNOWN:
            self.begins[place] = start_ns

    def set_first(self, place: int, chunk: Place) -> None:
        """Store the place of the first chunk of a session's records in the spool.

        `place` is the index of the session here.
        """
        self.offsets[place], self.lengths[place] = chunk

    def __len__(self) -> int:
        return len(self.numbers)

    def all(self) -> Iterator[SessionWork]:
        """Yield the work of each session."""
        names = list(self.conninfos)
        return (self.work(place, names) for place in range(len(self)))

    def work(self, place: int, conninfos: Sequence[str]) -> SessionWork:
        """Return the work of the session at a place, which is its index from 0.

        `conninfos` is the list of the keys of `self.conninfos`: the caller makes it once, for all
        calls.
        """
        return SessionWork(
            self.numbers[place],
            conninfos[self.conninfo[place]],
            (self.offsets[place], self.lengths[place]),
            bool(self.before[place]),
        )


@dataclass(frozen=True, slots=True)
class Blocked:
    """The query for lock waits in the server, and the connection for it."""

    connector: Connector
    statement: str
    """Its rows have two session numbers: one that waits, and one that it waits for."""


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The work of one worker process of a replay.

    `process` is its number, from 0.  `spool` is the file with the records of its `sessions`.
    `order_timeout` is in seconds.  `speed` is a multiple of the captured speed, 0 is as fast as
    possible.  `verify` is the key of that name: "none", "rows" or "hash".
    """

    process: int
    wire: str
    """The name of the server's wire."""
    spool: Descriptor
    sessions: SessionColumns
    prepared: tuple[Prepared, ...]
    order: Shared | None
    """The order of commits in shared memory; None if the replay keeps no order."""
    blocked: Blocked | None
    """The query for lock waits in the server; None if there is none."""
    order_timeout: float
    speed: float
    verify: str
    slots: int
    """Largest number of sessions at the same time at speed 0, at most as many as in the capture."""
    connections: int | None
    """Most connections at the same time; None if each session has its own."""
    read_only: bool = False
    """True for a replay that only reads: a connection that can write all the same is closed."""
    feeds: tuple[Descriptor, ...] = ()
    """Files with data for COPY FROM STDIN."""
