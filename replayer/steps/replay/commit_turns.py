"""Clients (replayed sessions) of one process that wait for their turn in the order of commits."""

import select
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Protocol

from replayer.steps.replay.commit_order import Gate
from replayer.steps.replay.lookout import Lookout
from replayer.steps.replay.replay_client import WAITING, LoopClock, ReplayClient
from replayer.steps.replay.work import Record, ReplayJob

_LOOK_AGAIN = 0.1
"""Seconds after which a waiting client checks the order again, in case a wake-up was missed."""
_LOOK_NS, _LONGEST_LOOK_NS = 5_000_000, 150_000_000
"""Wait before the first check for deadlocks, and the longest pause until the next check, in ns.

The wait is that of the client that has waited longest for its turn. The pause holds for a replay
with one process; with more processes it is longer in proportion. MariaDB shows a copy of its locks,
which it renews only if the copy was not read for 100 ms: processes that query it more often never
see a new deadlock.
"""
_MOST_LOOK_NS = 1_000_000_000
"""Longest pause between two checks for deadlocks, in ns, however many processes there are."""


class LockWaits(Protocol):
    """Queries for lock waits in the server, as in lookout.py."""

    bell: int

    def ask(self) -> None:
        """Start a query for lock waits, and return at once; `answers` yields its result.

        Does nothing if the answer to an earlier query has not been taken yet.
        """
        ...

    def answers(self) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield the answers that have come since the last call.

        An answer has the time at which the query was asked for (monotonic, in ns), and pairs of
        session numbers in the server: the session that waits, and the session that it waits for.
        """
        ...

    def close(self) -> None:
        """Stop the queries for lock waits."""
        ...


class CommitTurns:
    """The order of commits, and the clients of one process that wait for their turn in it.

    A client is one captured session that is replayed; it is known by its number in this process.
    """

    def __init__(
        self,
        gate: Gate,
        clock: LoopClock,
        timeout_s: float,
        lookout: LockWaits | None = None,
        processes: int = 1,
    ) -> None:
        self._gate = gate
        self._longest_look_ns = min(processes * _LONGEST_LOOK_NS, _MOST_LOOK_NS)
        self._clock = clock
        self._timeout_ns = round(timeout_s * 1e9)
        self._lookout = lookout
        self._look_ns, self._look_pause = 0, _LOOK_NS
        """Time of the next check for deadlocks, and the pause after that check, in ns."""
        self._moved_ns = 0
        """Time at which an action last ended here, or another process woke this one, in ns."""
        self._waiting: dict[int, int] = {}
        """Clients that wait for their turn -> when they give up waiting, in ns.

        They are in the order in which they began to wait.
        """

    @classmethod
    def of(cls, job: ReplayJob, clock: LoopClock) -> "CommitTurns | None":
        """Return the order of commits for a worker process; None if the replay keeps no order."""
        if job.order is None:
            return None
        lookout = None if job.blocked is None else Lookout(job)
        gate, processes = Gate(job.order, job.process), len(job.order.bells)
        return cls(gate, clock, job.order_timeout, lookout, processes)

    def close(self) -> None:
        """Unmap the shared memory with the order, and end the queries for lock waits."""
        self._gate.close()
        if self._lookout is not None:
            self._lookout.close()

    def register(self, poll: select.epoll) -> None:
        """Let `poll` wait for wake-ups by other processes, and for answers about lock waits."""
        poll.register(self._gate.bell, select.EPOLLIN)
        if self._lookout is not None:
            poll.register(self._lookout.bell, select.EPOLLIN)

    def waits(self, client: ReplayClient, record: Record) -> bool:
        """Return whether a client has to wait for its turn before it runs an action.

        If so, set the client's state to WAITING.  `record` is the action.
        """
        now = self._clock.seen_ns
        if not self._gate.waits(client.number, record.needs, record.chain, record.turn):
            if client.state == WAITING:
                client.free_ns = now
                self._waiting.pop(client.number, None)
                self._gate.goes(client.number)
            return False
        client.state = WAITING
        self._waiting.setdefault(client.number, now + self._timeout_ns)
        return True

    def end(self, record: Record) -> None:
        """Mark as ended the transaction and the change of a table that end with the action."""
        self._moved_ns = self._clock.seen_ns
        self._gate.end(record.ends, record.chain, record.turn)

    def meet(self, client: ReplayClient) -> None:
        """Publish to all processes which session of the server belongs to a client now."""
        connection = client.connection
        self._gate.meet(client.number, 0 if connection is None else connection.session)

    def released(self) -> Sequence[int]:
        """Return the numbers of the clients whose turn may have come."""
        return self._gate.released()

    def sleep(self) -> float | None:
        """Return the seconds that the loop may sleep; None if no client waits for its turn.

        If a client waits, call `released` again before sleeping: transactions may have ended before
        the other processes knew that clients wait here.
        """
        if not self._gate.sleep():
            return None
        if self._lookout is None:
            return _LOOK_AGAIN
        return min(_LOOK_AGAIN, max(1_000_000, self._look_ns - self._clock.seen_ns) / 1e9)

    def wake_others(self) -> None:
        """Wake the other processes in which a client waits, if a rank or turn has ended here.

        Here means: in this process, since the last call.
        """
        self._gate.ring()

    def late(self) -> list[int]:
        """Return the numbers of the clients that have waited for longer than the timeout.

        It returns [] as long as actions end: in a slow replay many clients wait for long.
        """
        now = self._clock.seen_ns
        if now - self._moved_ns < self._timeout_ns:
            return []
        return [number for number, _ in takewhile(lambda w: w[1] <= now, self._waiting.items())]

    def force(self, client: ReplayClient) -> None:
        """Let a waiting client go on although its turn has not come."""
        del self._waiting[client.number]
        self._gate.goes(client.number)
        client.forced = True
        client.free_ns = self._clock.seen_ns

    def look(self) -> None:
        """Start a query for lock waits in the server, if a client has waited 5 ms for its turn.

        After a query comes a pause, which is longer each time that no deadlock is found.
        """
        now = self._clock.seen_ns
        if self._lookout is None or not self._waiting or now < self._look_ns:
            return
        since = next(iter(self._waiting.values())) - self._timeout_ns
        if now - since < _LOOK_NS:
            self._look_ns = since + _LOOK_NS
            return
        self._look_ns = now + self._look_pause
        self._look_pause = min(2 * self._look_pause, self._longest_look_ns)
        self._lookout.ask()

    def hear(self, fd: int) -> Iterator[list[int]]:
        """Handle a wake-up by another process, or an answer to a query for lock waits.

        `fd` is a descriptor that `register` registered, and that has an event.  For each answer
        that shows deadlocks, yield the numbers of the clients that must go on before their turn:
        other clients wait in the server for their locks.
        """
        if fd == self._gate.bell:
            self._gate.silence()
            self._moved_ns = self._clock.seen_ns
        elif self._lookout is not None and fd == self._lookout.bell:
            for asked_ns, waits in self._lookout.answers():
                numbers = self._gate.deadlocked(waits, asked_ns)
                going = [number for number in numbers if number in self._waiting]
                if going:
                    yield going
                    self._look_ns, self._look_pause = self._clock.seen_ns, _LOOK_NS
