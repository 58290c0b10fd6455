"""What worker processes are given: each session's actions, ready to be sent, in a spool file.

A session's records lie in chunks of some hundred, so that little of a long capture is in memory,
wherever its sessions are.
"""

import marshal
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replayer.steps.replay.gate import Shared
from replayer.watch.workers import Descriptor

WHOLE, NAMED, CONNECT, DISCONNECT = range(4)
"""What a record does: its payload is all that is sent; it ends the Bind of a named statement."""
IN_ORDER, FORGETS, EXTENDED = 1, 2, 4
"""Flags: the rows of the answer have an order; names of prepared statements are forgotten; the
extended protocol is spoken."""


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


@dataclass(frozen=True, slots=True)
class SessionWork:
    """What one captured session does."""

    number: int
    conninfo: str
    chunks: tuple[tuple[int, int], ...]
    """Offset and length of each in the spool."""
    before: bool
    """Whether it was there when the replay begins."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one worker process does."""

    process: int
    wire: str
    """postgres or mysql."""
    spool: Descriptor
    sessions: tuple[SessionWork, ...]
    """In the order in which they begin."""
    prepared: tuple[Prepared, ...]
    order: Shared | None
    order_timeout: float
    speed: float
    verify: str
    slots: int
    """Sessions at a time at speed 0: as many as there were at a time in the capture."""
    connections: int | None
    """Connections at a time at most; None where each session has its own."""
    read_only: bool = False
    """A connection on which something could be written is closed."""


class Spool:
    """Takes the records of sessions in any order, and writes them in chunks."""

    CHUNK = 256

    def __init__(self) -> None:
        self.fd = os.memfd_create("replayer-spool", os.MFD_CLOEXEC)
        self._end = 0

    def write(self, records: Sequence[Record]) -> tuple[int, int]:
        """Write one chunk, and return where it is."""
        packed = marshal.dumps([tuple(record) for record in records])
        place = (self._end, len(packed))
        view = memoryview(packed)
        while view:
            view = view[os.write(self.fd, view) :]
        self._end += len(packed)
        return place

    def close(self) -> None:
        """Give it back."""
        os.close(self.fd)


def records(fd: int, chunks: Sequence[tuple[int, int]]) -> Iterator[Record]:
    """Yield the records of a session, a chunk at a time."""
    for offset, length in chunks:
        for plain in marshal.loads(os.pread(fd, length, offset)):  # noqa: S302 - written above
            yield Record._make(plain)
