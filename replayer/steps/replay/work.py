"""What worker processes are given: actions as they are sent, and how a process goes about them."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replayer.steps.replay.commit_order import Shared
from replayer.watch.workers import Descriptor

WHOLE, NAMED, CONNECT, DISCONNECT = range(4)
"""What a record does: its payload is all that is sent; it ends the Bind of a named statement."""
IN_ORDER, FORGETS, EXTENDED, IMPOSED = 1, 2, 4, 8
"""Flags: the rows of the answer have an order; names of prepared statements are forgotten; the
extended protocol is spoken; what is sent fails as the statement did in the log, in its place."""
FED = 8
"""Bits of the flags below the number, from 1, of the file with the data that the action sends."""
PARTS = 64
"""Of a capture's time, in each of which what was answered is added up."""


class Record(NamedTuple):
    """One action of a session, as it lies in the spool."""

    does: int
    fingerprint: int
    """Its place in the list of fingerprints; -1 of what is no statement."""
    payload: bytes
    start_ns: int
    """Intended, since the begin of the replay."""
    needs: int
    ends: int
    chain: int
    turn: int
    logged: int
    """SQLSTATE that the log has, as a number."""
    named: int
    """Place of the prepared statement, -1 of others."""
    flags: int
    rows: int
    """That the log has of it, -1 where it has none that can be held against an answer's."""
    part: int
    """Which of the PARTS of the capture's time it started in."""


class Prepared(NamedTuple):
    """A named prepared statement."""

    name: bytes
    text: bytes


Place = tuple[int, int]
"""Offset and length of a session's records in the spool; no bytes are none."""
NOWHERE: Place = (0, 0)
_UNKNOWN = -1


class SessionWork(NamedTuple):
    """What one captured session does."""

    number: int
    conninfo: str
    first: Place
    """Of its records."""
    before: bool
    """Whether it was there when the replay begins."""


@dataclass(eq=False)
class SessionColumns:
    """Sessions in the order in which they begin, as columns: there may be millions."""

    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    begins: "array[int]" = field(default_factory=lambda: array("q"))
    """When the first action of each is to start, in ns since the begin of the replay."""
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    lengths: "array[int]" = field(default_factory=lambda: array("q"))
    before: bytearray = field(default_factory=bytearray)
    conninfo: "array[int]" = field(default_factory=lambda: array("l"))
    conninfos: dict[str, int] = field(default_factory=dict)
    """Each that there is -> its number."""

    def add(self, number: int, conninfo: str, *, before: bool) -> int:
        """Take the next session, and return its place among them."""
        self.numbers.append(number)
        self.begins.append(_UNKNOWN)
        self.offsets.append(0)
        self.lengths.append(0)
        self.before.append(before)
        self.conninfo.append(self.conninfos.setdefault(conninfo, len(self.conninfos)))
        return len(self.numbers) - 1

    def begin(self, place: int, start_ns: int) -> None:
        """Take when an action of a session starts; the first one counts."""
        if self.begins[place] == _UNKNOWN:
            self.begins[place] = start_ns

    def set_first(self, place: int, chunk: Place) -> None:
        """Take where the first records of a session lie."""
        self.offsets[place], self.lengths[place] = chunk

    def __len__(self) -> int:
        return len(self.numbers)

    def all(self) -> Iterator[SessionWork]:
        """Yield each of them."""
        names = list(self.conninfos)
        return (self.work(place, names) for place in range(len(self)))

    def work(self, place: int, conninfos: Sequence[str]) -> SessionWork:
        """Return one of them; `conninfos` are the keys of its own, as a list."""
        return SessionWork(
            self.numbers[place],
            conninfos[self.conninfo[place]],
            (self.offsets[place], self.lengths[place]),
            bool(self.before[place]),
        )


@dataclass(frozen=True, slots=True)
class Blocked:
    """How a process asks which sessions of the server wait for a lock, and for whom."""

    conninfo: str
    statement: str
    """Its rows have the number of a session that waits, and of one that it waits for."""


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """What one worker process does."""

    process: int
    wire: str
    """postgres or mysql."""
    spool: Descriptor
    sessions: SessionColumns
    prepared: tuple[Prepared, ...]
    order: Shared | None
    blocked: Blocked | None
    """How to ask who waits in the server for whom; None where that cannot be asked."""
    order_timeout: float
    speed: float
    verify: str
    slots: int
    """Sessions at a time at speed 0: as many as there were at a time in the capture."""
    connections: int | None
    """Connections at a time at most; None where each session has its own."""
    read_only: bool = False
    """A connection on which something could be written is closed."""
    feeds: tuple[Descriptor, ...] = ()
    """Files with data for COPY FROM STDIN."""
