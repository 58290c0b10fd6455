"""One captured session while it is replayed, and the clock of a worker process's event loop."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replayer.steps.replay.replay_counts import where
from replayer.steps.replay.work import Record, SessionWork

if TYPE_CHECKING:
    from replayer.engines.wire_session import ConnectionAttempt, WireConnection

DUE, BUSY, WAITING, CONNECTING, RETRYING, WANTING, BARRED, OVER = range(8)
"""States of a client.

DUE: it waits for its start time.  BUSY: for an answer.  WAITING: for its turn in the order.
CONNECTING: for its connection.  RETRYING: for the time of another attempt to connect.  WANTING: for
the connection of another client.  BARRED: the server refused it for good.  OVER: it has finished.
"""
FIRST_PAUSE_NS = 100_000_000
"""Pause before the second attempt to connect, in ns."""


class LoopClock:
    """The times of the event loop of a worker process, on the monotonic clock in ns.

    `begin_ns` is the begin of the replay, `seen_ns` is when the loop last read the clock, and
    `answered_ns` is when the server last answered a statement.
    """

    __slots__ = ("answered_ns", "begin_ns", "seen_ns")

    def __init__(self, begin_ns: int = 0) -> None:
        self.begin(begin_ns)

    def begin(self, begin_ns: int) -> None:
        """Set all times to the begin of the replay."""
        self.begin_ns = self.seen_ns = self.answered_ns = begin_ns

    @property
    def seconds(self) -> float:
        """Return the second of the replay at which the loop last read the clock."""
        return (self.seen_ns - self.begin_ns) / 1e9


class ReplayClient:
    """One captured session in the replay: its connection, its state and its next action.

    `record` is the action under way or the next one, None at the end.  `begun_ns` is when the
    current statement was sent, `free_ns` is when the session was ready to send it, on the monotonic
    clock.
    """

    __slots__ = (
        *("asked_ns", "begun_ns", "connecting", "connection", "cut", "failed", "forced"),
        *("free_ns", "number", "pause_ns", "record", "records", "since_ns", "state"),
        *("strayed", "where", "work"),
    )

    def __init__(self, number: int, work: SessionWork, todo: Iterator[Record]) -> None:
        self.number = number
        self.work = work
        self.records = todo
        self.record: Record | None = next(todo, None)
        self.connection: WireConnection | None = None
        self.connecting: ConnectionAttempt | None = None
        self.state = DUE
        self.begun_ns = self.free_ns = self.since_ns = self.asked_ns = 0
        self.pause_ns = FIRST_PAUSE_NS
        self.cut = self.failed = self.forced = False
        """Flags of the client.

        `cut`: the rest of its transaction is skipped, as its connection was lost.  `failed`: one of
        its statements failed.  `forced`: its current action runs before its turn.
        """
        self.strayed = False
        """A statement of its open transaction ended in another way than in the log."""
        self.where = where(work.number, 0)
