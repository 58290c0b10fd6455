"""One worker process of a replay: many sessions on one event loop.

Each session runs its actions in their captured order.  At a speed above 0 every action has an
intended start, which is never moved.  A session that is still busy at that time begins the action
late.  The time at which the session became free is recorded with it: it shows whether the server or
replayer was the reason.  At speed 0 a session sends its next action as soon as it has the answer of
the last.

Only code that runs in worker processes is here; the modules that it needs import little.
"""

import contextlib
import gc
import heapq
import queue
import resource
import select
import sys
import threading
import time
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from replayer.errors import UNKNOWN_STATE
from replayer.load.timer import TimerFd
from replayer.steps.replay.commit_order import Gate
from replayer.steps.replay.failures import LOST, ConnectionGone, Refused
from replayer.steps.replay.lookout import Lookout
from replayer.steps.replay.replay_counts import (
    FIELDS,
    FOLLOWS,
    OTHERWISE,
    SAME,
    First,
    ReplayCounts,
    held,
    number_of,
    paired,
    tally,
    where,
)
from replayer.steps.replay.spool import records
from replayer.steps.replay.wire import Connection, ConnectionAttempt, connecting
from replayer.steps.replay.work import (
    CONNECT,
    DISCONNECT,
    EXTENDED,
    FED,
    FORGETS,
    IMPOSED,
    IN_ORDER,
    NAMED,
    Record,
    ReplayJob,
    SessionWork,
)
from replayer.watch.workers import Barrier, Report

_REPORT_NS = 1_000_000_000
_ENOUGH = FIELDS << 16
_LONGEST_WAIT = 0.5
_SWITCH_SECONDS = 1e-4
"""Switch interval of the interpreter, so that the counting thread never holds up the loop."""
_LOOK_AGAIN = 0.1
"""Seconds after which a waiting client checks the order again, in case a wake-up was missed."""
_LOOK_NS, _LONGEST_LOOK_NS = 5_000_000, 100_000_000
"""Wait before the first check for deadlocks, and the longest pause until the next check.

The wait is that of the client that waits in the order for longest.
"""
_PATIENCE_NS = 30 * 10**9
"""Time for which a server that refuses connections is tried again, while it answers no client."""
_CONNECT_NS = 10 * 10**9
_FIRST_PAUSE_NS = 100_000_000
_LONGEST_PAUSE_NS = 1_000_000_000
_IN_FAILED_TRANSACTION = number_of("25P02")
_ANY_STATE = number_of(UNKNOWN_STATE)
_MISSING = frozenset(map(number_of, ("26000", "34000", "3B001")))
"""No such prepared statement, cursor or savepoint, if the statement that creates it failed."""

LOST_SESSIONS: Final = "sessions lost"
NOT_RUN: Final = "not run"
ORDER_TIMEOUTS: Final = "order timeouts"
OUT_OF_TURN: Final = "out of turn"
IMPOSED_FAILURES: Final = "imposed failures"
REFUSED: Final = "connections refused"
GIVEN_UP: Final = "sessions given up"
SHARED: Final = "connections handed on"


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """The work of a process since its last report."""

    process: int
    seconds: float
    """Time since the start of the replay."""
    tally: ReplayCounts
    at_work: int
    """Sessions with a statement under way."""
    done: int
    """Actions of the capture that are finished."""
    behind: float
    """Seconds by which the session that is due for longest is late; 0 if none is late."""


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """The result of one worker process."""

    ended: float
    """Second of the replay at which the last action of this process was over."""
    cpu: tuple[float, float]
    refusal: str
    """The server's reason to refuse connections, if sessions were given up for it; else ""."""


class _Client:
    """One captured session in the replay."""

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
        self.connection: Connection | None = None
        self.connecting: ConnectionAttempt | None = None
        self.state = _DUE
        self.begun_ns = self.free_ns = self.since_ns = self.asked_ns = 0
        self.pause_ns = _FIRST_PAUSE_NS
        self.cut = self.failed = self.forced = False
        """Flags: the rest of its transaction is skipped, as its connection was lost; a statement
        failed; it no longer waits for its turn."""
        self.strayed = False
        """A statement of its open transaction ended in another way than in the log."""
        self.where = where(work.number, 0)


_DUE, _BUSY, _WAITING, _CONNECTING, _RETRYING, _WANTING, _OVER = range(7)
"""States of a client.

It waits for its start time, an answer, its turn in the order, a connection, another attempt to
connect, or a connection of another client.  _OVER: it has finished.
"""


def work(job: ReplayJob, barrier: Barrier, report: Report) -> WorkerResult:
    """Run one process of a replay: connect, wait for the barrier, replay.

    Connections that the server refuses before the barrier are tried again during the replay.
    """
    _allow_all_files()
    with contextlib.ExitStack() as opened:
        clients = _Clients(job, report)
        opened.callback(clients.close)
        clients.connect_first()
        gc.collect()
        gc.freeze()
        gc.disable()
        return clients.run(barrier.wait())


class _Clients:
    """The captured sessions of one process, and the event loop that runs them."""

    def __init__(self, job: ReplayJob, report: Report) -> None:
        self._job = job
        self._timed = job.speed > 0
        self._teller = _Teller(job, report)
        self._gate = None if job.order is None else Gate(job.order, job.process)
        self._sessions = job.sessions
        self._conninfos = list(job.sessions.conninfos)
        self._clients: dict[int, _Client] = {}
        """The clients under way, by their places among the sessions."""
        self._next = 0
        """Place of the session that begins next."""
        self._by_fd: dict[int, _Client] = {}
        self._poll = select.epoll()
        self._alarm = TimerFd()
        self._poll.register(self._alarm.fd, select.EPOLLIN | select.EPOLLET)
        if self._gate is not None:
            self._poll.register(self._gate.bell, select.EPOLLIN)
        self._lookout: Lookout | None = None
        if self._gate is not None and job.blocked is not None:
            self._lookout = Lookout(job)
            self._poll.register(self._lookout.bell, select.EPOLLIN)
        self._look_ns, self._look_pause = 0, _LOOK_NS
        """Time of the next check for deadlocks, and the pause after that check, in ns."""
        self._due: list[tuple[int, int]] = []
        """Heap of the clients that are due: time (monotonic clock, in ns), place of the client."""
        self._waiting: dict[int, int] = {}
        """Clients that wait for their turn in the order -> when they give up waiting, in ns."""
        self._wanting: deque[_Client] = deque()
        self._open = 0
        self._live = len(self._sessions)
        self._begin = self._seen = self._answered = self._ended = 0
        self._next_report = 0
        self._records = array("q")
        self._hashes = array("Q")
        self._first: dict[tuple[int, int], First] = {}
        self._happened: dict[str, int] = {}
        self._done = self._at_work = 0
        self._told = -1
        self._refusal = ""
        self._taking_hashes = job.verify == "hash"
        self._holding = job.verify != "none"
        self._several = job.connections is not None

    def close(self) -> None:
        """Close all connections and descriptors."""
        for client in self._clients.values():
            if client.connection is not None:
                client.connection.close()
            if client.connecting is not None:
                client.connecting.close()
        self._alarm.close()
        self._poll.close()
        if self._gate is not None:
            self._gate.close()
        if self._lookout is not None:
            self._lookout.close()

    # Before the clock starts

    def connect_first(self) -> None:
        """Connect the sessions that exist when the replay begins.

        A refused connection is ignored here: the session tries again during the replay.
        """
        room = self._job.connections or len(self._sessions)
        if self._timed:
            first = [place for place, before in enumerate(self._sessions.before) if before][:room]
        else:
            first = list(range(min(room, self._job.slots, len(self._sessions))))
        for place in first:
            with contextlib.suppress(Refused):
                self._connect_now(self._enter(place))

    def _enter(self, place: int) -> _Client:
        """Return the client of a session that begins; create it if it does not exist."""
        client = self._clients.get(place)
        if client is None:
            work = self._sessions.work(place, self._conninfos)
            client = _Client(place, work, records(self._job.spool.fd, work.first))
            self._clients[place] = client
        return client

    def _connect_now(self, client: _Client) -> None:
        attempt = connecting(self._job.wire, client.work.conninfo)
        end = time.monotonic_ns() + _CONNECT_NS
        made = False
        while not made:
            if not _answered(attempt, (end - time.monotonic_ns()) / 1e9):
                attempt.close()
                return
            made = attempt.go_on()
        client.connection = self._made(attempt)
        self._open += 1
        self._register(client, client.connection.fd)

    def _made(self, attempt: ConnectionAttempt) -> Connection:
        return attempt.connection(self._job.verify, read_only=self._job.read_only)

    def _register(self, client: _Client, fd: int) -> None:
        self._meet(client)
        self._by_fd[fd] = client
        self._poll.register(fd, select.EPOLLIN)

    # The loop

    def run(self, begin_ns: int) -> WorkerResult:
        """Run the replay, which begins at `begin_ns`; return when all sessions are over."""
        self._begin = self._seen = self._answered = begin_ns
        self._next_report = begin_ns + _REPORT_NS
        before = _cpu()
        self._begin_all(begin_ns)
        clock, due, poll = time.monotonic_ns, self._due, self._poll.poll
        while self._live:
            now = self._seen = clock()
            while due and due[0][0] <= now:
                self._go(heapq.heappop(due)[1], now)
                now = self._seen = clock()
            if not self._live:
                break
            events = poll(self._sleep(now))
            self._seen = clock()
            for fd, mask in events:
                client = self._by_fd.get(fd)
                if client is None:
                    self._other(fd)
                elif client.state == _BUSY:
                    self._receive(client, mask)
                elif client.state == _CONNECTING:
                    self._go_on(client)
                else:
                    self._interrupted(client)
            if self._gate is not None:
                self._keep_order()
            if self._seen >= self._next_report:
                self._tell()
        self._tell()
        self._teller.finish()
        after = _cpu()
        cpu = (after[0] - before[0], after[1] - before[1])
        return WorkerResult((self._ended - self._begin) / 1e9, cpu, self._refusal)

    def _begin_all(self, now: int) -> None:
        if self._timed:
            self._await_next()
            return
        for _ in range(min(self._job.slots, len(self._sessions))):
            self._begin_next(now)

    def _await_next(self) -> None:
        """Schedule the session that begins next; when it begins, it schedules the one after it."""
        if self._next < len(self._sessions):
            begins = self._begin + self._sessions.begins[self._next]
            heapq.heappush(self._due, (begins, self._next))

    def _begin_next(self, now: int) -> None:
        """Start the next session at speed 0, if there is one left."""
        if self._next < len(self._sessions):
            self._enter(self._next)
            heapq.heappush(self._due, (now, self._next))
            self._next += 1

    def _schedule(self, client: _Client) -> None:
        """Schedule a client for the intended start of its next action."""
        if client.record is None:
            self._finish(client, self._seen)
        else:
            client.state = _DUE
            heapq.heappush(self._due, (self._begin + client.record.start_ns, client.number))

    def _sleep(self, now: int) -> float:
        """Return the longest time, in seconds, that the loop may wait for events."""
        longest = _LONGEST_WAIT
        if self._gate is not None and self._gate.sleep():
            longest = _LOOK_AGAIN
            if self._lookout is not None:
                longest = min(longest, max(1_000_000, self._look_ns - now) / 1e9)
            # Transactions may have ended before the other processes knew that clients wait here.
            if released := self._gate.released():
                self._release(released)
                return 0
        if self._due:
            first = self._due[0][0]
            if first <= now:
                return 0
            self._alarm.set(first)
        return longest

    def _other(self, fd: int) -> None:
        if self._gate is not None and fd == self._gate.bell:
            self._gate.silence()
        elif self._lookout is not None and fd == self._lookout.bell:
            self._let_deadlocked_go()

    def _go(self, place: int, now: int) -> None:
        """Continue a client whose time has come, for an action or another attempt to connect."""
        if self._timed and place == self._next:
            self._next += 1
            self._await_next()
            self._enter(place)
        client = self._clients.get(place)
        if client is None:
            return
        if client.state == _RETRYING:
            client.state = _DUE
            if self._start(client, now):
                self._advance(client, now)
        elif client.state == _DUE:
            self._advance(client, now)

    def _advance(self, client: _Client, now: int) -> None:
        """Start the actions of a client until one is under way, or waits."""
        while (record := client.record) is not None:
            if self._timed and self._begin + record.start_ns > now:
                self._schedule(client)
                return
            if not self._start(client, now):
                return
        self._finish(client, now)

    def _start(self, client: _Client, now: int) -> bool:
        """Start the next action of a client; return True if it is over at once."""
        record = client.record
        assert record is not None
        if client.cut:
            self._skip(client, record)
            return True
        if self._gate is not None and not client.forced and self._waits(client, record, now):
            return False
        if record.does == DISCONNECT:
            self._let_go(client)
            self._over(client, record)
            return True
        if client.connection is None and not self._has_connection(client, now):
            return False
        if record.does == CONNECT:
            self._over(client, record)
            if self._wanting:
                self._hand_on(client)
            return True
        return self._send(client, record)

    def _send(self, client: _Client, record: Record) -> bool:
        connection = client.connection
        assert connection is not None
        client.begun_ns = time.monotonic_ns()
        in_order = bool(record.flags & IN_ORDER)
        if fed := record.flags >> FED:
            connection.feed = self._job.feeds[fed - 1].fd
        try:
            if record.does == NAMED:
                name, text = self._job.prepared[record.named]
                if self._several:
                    name = b"%d.%s" % (client.work.number, name)
                connection.execute(name, record.named, text, record.payload, in_order=in_order)
            else:
                extended = bool(record.flags & EXTENDED)
                connection.send(record.payload, extended=extended, in_order=in_order)
        except ConnectionGone as error:
            self._lose(client, record, error)
            return True
        if connection.unsent:
            self._poll.modify(connection.fd, select.EPOLLIN | select.EPOLLOUT)
        client.state = _BUSY
        self._at_work += 1
        return False

    def _receive(self, client: _Client, mask: int) -> None:
        """Read the answer of a statement under way; at its end, go on with the next action."""
        connection, record = client.connection, client.record
        assert connection is not None
        assert record is not None
        try:
            if mask & select.EPOLLOUT:
                connection.flush()
                if not connection.unsent:
                    self._poll.modify(connection.fd, select.EPOLLIN)
            if not mask & ~select.EPOLLOUT or not connection.receive():
                if connection.unsent:
                    self._poll.modify(connection.fd, select.EPOLLIN | select.EPOLLOUT)
                return
        except ConnectionGone as error:
            self._at_work -= 1
            self._lose(client, record, error)
        else:
            self._at_work -= 1
            self._answer(client, record, connection)
        self._advance(client, self._seen)

    def _answer(self, client: _Client, record: Record, connection: Connection) -> None:
        code = number_of(connection.sqlstate) if connection.sqlstate else 0
        if record.flags & IMPOSED:
            self._happens(IMPOSED_FAILURES)
            # Some wire protocols cannot fail with a chosen SQLSTATE.
            code = code or record.logged
        if code:
            code = self._judge(client, record, code)
        elif record.logged > 0:
            self._stray(client, record, -record.logged)
        if record.flags & FORGETS:
            connection.prepared.clear()
        held_rows = -1
        if record.rows >= 0 and self._holding and not (code or record.logged):
            held_rows = self._hold(client, record, connection)
        self._write(client, record, code, connection.rows, connection.hash, held_rows)
        self._answered = self._seen
        self._over(client, record)
        if self._wanting and connection.idle:
            self._hand_on(client)

    def _judge(self, client: _Client, record: Record, code: int) -> int:
        """Return the SQLSTATE of an error, negative if it only follows from an earlier error."""
        if code == _IN_FAILED_TRANSACTION or (code in _MISSING and client.failed):
            return -code
        client.failed = True
        if record.logged not in {code, _ANY_STATE}:
            self._stray(client, record, code)
        return code

    def _stray(self, client: _Client, record: Record, code: int) -> None:
        """Record that a statement ended in another way than in the log, and the first time it did.

        `code` is as in ReplayCounts.first.
        """
        client.strayed = True
        key = (record.fingerprint, code)
        if key not in self._first:
            self._first[key] = First((self._seen - self._begin) / 1e9, client.work.number)

    def _hold(self, client: _Client, record: Record, connection: Connection) -> int:
        """Compare the number of rows of an answer with the log's.

        Return the result of the comparison together with the log's number, as `held` packs them; -1
        for an answer that has no number of rows.
        """
        logged = record.rows
        if connection.rows < 0:
            return -1
        # A MySQL client may have asked for the number of rows found instead of rows changed.
        if logged in {connection.rows, connection.matched}:
            return held(logged, SAME)
        if client.strayed:
            return held(logged, FOLLOWS)
        self._stray(client, record, 0)
        return held(logged, OTHERWISE)

    def _write(  # noqa: PLR0917 - the columns of a record
        self, client: _Client, record: Record, code: int, rows: int, hashed: int, held_rows: int
    ) -> None:
        """Record the times and the result of a statement."""
        begun = client.begun_ns
        # At speed 0 there is no intended start: the statement was due when it was sent.
        intended = self._begin + record.start_ns if self._timed else begun
        self._records.extend(
            (
                record.fingerprint,
                intended,
                client.free_ns,
                begun,
                self._seen,
                code,
                rows,
                record.logged,
                held_rows,
                client.where + record.part,
                paired(record.source_ns, client.work.number),
            )
        )
        if self._taking_hashes:
            self._hashes.append(hashed)

    def _over(self, client: _Client, record: Record) -> None:
        """Mark the current action of a client as over, and move to its next."""
        if record.ends >= 0:
            client.strayed = False
        if self._gate is not None:
            self._gate.end(record.ends, record.chain, record.turn)
        self._done += 1
        client.state = _DUE
        client.forced = False
        client.free_ns = self._ended = self._seen
        client.record = next(client.records, None)

    def _finish(self, client: _Client, now: int) -> None:
        """Mark a session as over, and release its connection."""
        if client.state == _OVER:
            return
        self._let_go(client)
        client.state = _OVER
        self._clients.pop(client.number, None)
        self._live -= 1
        if not self._timed:
            self._begin_next(now)

    # Order

    def _waits(self, client: _Client, record: Record, now: int) -> bool:
        assert self._gate is not None
        if not self._gate.waits(client.number, record.needs, record.chain, record.turn):
            if client.state == _WAITING:
                client.free_ns = now
                self._waiting.pop(client.number, None)
                self._gate.goes(client.number)
            return False
        client.state = _WAITING
        self._waiting.setdefault(client.number, now + round(self._job.order_timeout * 1e9))
        return True

    def _keep_order(self) -> None:
        """Release the clients whose turn has come, wake other processes, count timeouts."""
        gate = self._gate
        assert gate is not None
        while released := gate.released():
            self._release(released)
        gate.ring()
        # The clients are in the order in which they began to wait.
        late = list(takewhile(lambda one: one[1] <= self._seen, self._waiting.items()))
        for number, _ in late:
            self._force(number, ORDER_TIMEOUTS)
        self._look_for_deadlocks()

    def _force(self, number: int, why: str) -> None:
        """Release a client that waits in the order, although it is not its turn."""
        assert self._gate is not None
        client = self._clients[number]
        self._happens(why)
        del self._waiting[number]
        self._gate.goes(number)
        client.forced = True
        client.free_ns = self._seen
        self._resume(client)

    def _look_for_deadlocks(self) -> None:
        """Start a query for lock waits in the server, once a client has waited here for a while."""
        if self._lookout is None or not self._waiting or self._seen < self._look_ns:
            return
        since = next(iter(self._waiting.values())) - round(self._job.order_timeout * 1e9)
        if self._seen - since < _LOOK_NS:
            self._look_ns = since + _LOOK_NS
            return
        self._look_ns = self._seen + self._look_pause
        self._look_pause = min(2 * self._look_pause, _LONGEST_LOOK_NS)
        self._lookout.ask()

    def _let_deadlocked_go(self) -> None:
        """Release clients whose wait here is part of a deadlock with lock waits in the server."""
        assert self._gate is not None
        assert self._lookout is not None
        for asked_ns, waits in self._lookout.answers():
            going = [n for n in self._gate.deadlocked(waits, asked_ns) if n in self._waiting]
            for number in going:
                self._force(number, OUT_OF_TURN)
            if going:
                self._look_ns, self._look_pause = self._seen, _LOOK_NS

    def _release(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            client = self._clients.get(number)
            # A client that gave up waiting is still in the gate's queue.
            if client is not None and client.state == _WAITING and not client.forced:
                self._resume(client)

    def _resume(self, client: _Client) -> None:
        """Start the action that waited, and the actions that follow it."""
        now = self._seen
        if self._start(client, now):
            self._advance(client, now)

    # Connections

    def _has_connection(self, client: _Client, now: int) -> bool:
        """Start to connect, or take over an idle connection; return True if there is one now."""
        limit = self._job.connections
        if limit is not None and self._open >= limit:
            other = self._idle_one(client)
            if other is None:
                client.state = _WANTING
                self._wanting.append(client)
                return False
            if other.work.conninfo == client.work.conninfo:
                self._take_over(client, other)
                return True
            self._let_go(other)
        self._connect(client, now)
        return False

    def _idle_one(self, client: _Client) -> _Client | None:
        """Return a client whose connection is idle, if possible one with the same conninfo."""
        idle = [
            one
            for one in self._by_fd.values()
            if one.connection is not None and one.state != _BUSY and one.connection.idle
        ]
        alike = (one for one in idle if one.work.conninfo == client.work.conninfo)
        return next(alike, idle[0] if idle else None)

    def _take_over(self, client: _Client, other: _Client) -> None:
        assert other.connection is not None
        client.connection, other.connection = other.connection, None
        self._meet(client)
        self._meet(other)
        self._by_fd[client.connection.fd] = client
        self._happens(SHARED)

    def _hand_on(self, client: _Client) -> None:
        """Give the idle connection of a client to the client that has wanted one for longest."""
        other = self._wanting.popleft()
        other.state = _DUE
        if other.work.conninfo == client.work.conninfo:
            self._take_over(other, client)
        else:
            self._let_go(client)
        other.free_ns = self._seen
        self._resume(other)

    def _meet(self, client: _Client) -> None:
        """Publish to all processes which session in the server a client has now."""
        if self._gate is not None:
            connection = client.connection
            self._gate.meet(client.number, 0 if connection is None else connection.session)

    def _connect(self, client: _Client, now: int) -> None:
        """Start to connect; a refusal at once is handled as a later one."""
        client.state = _CONNECTING
        client.asked_ns = now
        client.since_ns = client.since_ns or now
        try:
            client.connecting = connecting(self._job.wire, client.work.conninfo)
        except Refused as refusal:
            self._refuse(client, refusal)
            return
        self._open += 1
        fd = client.connecting.fileno()
        self._by_fd[fd] = client
        self._poll.register(fd, client.connecting.events)

    def _go_on(self, client: _Client) -> None:
        """Continue an attempt to connect, and the session once the connection is made."""
        attempt = client.connecting
        assert attempt is not None
        before = attempt.fileno()
        try:
            made = attempt.go_on()
        except Refused as refusal:
            self._forget(before)
            self._open -= 1
            client.connecting = None
            self._refuse(client, refusal)
            return
        fd = attempt.fileno()
        if fd != before:
            # libpq went on to the next address, with another socket.
            self._forget(before)
            self._by_fd[fd] = client
            self._poll.register(fd, attempt.events)
        if not made:
            self._poll.modify(fd, attempt.events)
            return
        self._forget(fd)
        client.connection, client.connecting = self._made(attempt), None
        client.since_ns, client.pause_ns = 0, _FIRST_PAUSE_NS
        self._register(client, client.connection.fd)
        client.state = _DUE
        client.free_ns = self._seen
        self._resume(client)

    def _refuse(self, client: _Client, refusal: Refused) -> None:
        """Schedule another attempt a little later, or give the session up."""
        now = time.monotonic_ns()
        self._happens(REFUSED)
        waited = now - max(client.since_ns, self._answered)
        if not refusal.passing or waited >= _PATIENCE_NS:
            self._refusal = self._refusal or str(refusal)
            self._give_up(client)
            return
        client.state = _RETRYING
        heapq.heappush(self._due, (now + client.pause_ns, client.number))
        client.pause_ns = min(2 * client.pause_ns, _LONGEST_PAUSE_NS)

    def _give_up(self, client: _Client) -> None:
        self._happens(GIVEN_UP)
        while (record := client.record) is not None:
            self._skip(client, record)
        self._finish(client, self._seen)

    def _skip(self, client: _Client, record: Record) -> None:
        """Skip an action of a session that was cut off; clients that wait for it are released."""
        if record.fingerprint >= 0:
            self._happens(NOT_RUN)
        if record.ends >= 0 or record.does == DISCONNECT:
            client.cut = False
        self._over(client, record)

    def _lose(self, client: _Client, record: Record, error: ConnectionGone) -> None:
        """Handle a lost connection: what is left of its transaction cannot be run."""
        connection = client.connection
        assert connection is not None
        self._happens(LOST_SESSIONS)
        code = self._judge(client, record, number_of(error.sqlstate) or number_of(LOST))
        self._write(client, record, code, -1, 0, -1)
        open_before = not connection.idle
        self._let_go(client)
        self._over(client, record)
        client.cut = open_before and record.ends < 0

    def _interrupted(self, client: _Client) -> None:
        """Handle a connection that ended while no statement was under way on it."""
        connection = client.connection
        if connection is None:
            return
        try:
            connection.receive()
        except ConnectionGone:
            self._happens(LOST_SESSIONS)
            client.cut = not connection.idle
            self._let_go(client)

    def _let_go(self, client: _Client) -> None:
        """Close the connection of a client, and its attempt to connect, if it has one."""
        if client.connecting is not None:
            self._forget(client.connecting.fileno())
            client.connecting.close()
            client.connecting = None
            self._open -= 1
        if client.connection is not None:
            self._forget(client.connection.fd)
            client.connection.close()
            client.connection = None
            self._meet(client)
            self._open -= 1
            if self._wanting:
                self._begin_wanting()

    def _begin_wanting(self) -> None:
        """Let the client connect that has wanted a connection for longest: there is room again."""
        other = self._wanting.popleft()
        other.state = _RETRYING
        heapq.heappush(self._due, (self._seen, other.number))

    def _forget(self, fd: int) -> None:
        if self._by_fd.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self._poll.unregister(fd)

    # Reports

    def _happens(self, what: str) -> None:
        self._happened[what] = self._happened.get(what, 0) + 1

    def _tell(self) -> None:
        """Report the work done since the last report."""
        self._next_report = self._seen + _REPORT_NS
        if not self._records and not self._happened and self._told == self._done:
            # A report means that the server answered: a silent server shows by missing reports.
            return
        self._told = self._done
        behind = max(0, self._seen - self._due[0][0]) / 1e9 if self._due else 0.0
        more = ReplayCounts(first=dict(self._first), happened=self._happened)
        seconds = (self._seen - self._begin) / 1e9
        part = ReplayProgress(self._job.process, seconds, more, self._at_work, self._done, behind)
        self._teller.tell(part, self._records, self._hashes, self._begin)
        self._records, self._hashes = array("q"), array("Q")
        self._happened = {}


class _Teller:
    """Counts records and reports them in its own thread, so that the loop does not wait."""

    def __init__(self, job: ReplayJob, report: Report) -> None:
        self._timed = job.speed > 0
        self._report = report
        self._failure: BaseException | None = None
        self._waiting: queue.SimpleQueue[tuple[ReplayProgress, array[int], array[int], int] | None]
        self._waiting = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._count, daemon=True)
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()

    def tell(
        self, part: ReplayProgress, counted: "array[int]", hashes: "array[int]", begin_ns: int
    ) -> None:
        """Queue records to be counted, and the report that carries the counts."""
        self._waiting.put((part, counted, hashes, begin_ns))

    def finish(self) -> None:
        """Wait until all is reported; raise the error that the thread met, if any."""
        self._waiting.put(None)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _count(self) -> None:
        try:
            self._count_all()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._failure = error

    def _count_all(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            part, rows, hashes, begin_ns = waiting
            counted = tally(rows, hashes, begin_ns, timed=self._timed)
            self._report(replace(part, tally=ReplayCounts.of([counted, part.tally])))


def _answered(attempt: ConnectionAttempt, seconds: float) -> bool:
    """Return whether an attempt to connect can go on; wait at most `seconds` for it."""
    # select(2) supports no descriptor above 1023.
    poll = select.poll()
    poll.register(attempt.fileno(), attempt.events)
    return bool(poll.poll(max(0.0, seconds) * 1e3))


def _allow_all_files() -> None:
    """Raise this process's limit of open files to the hard limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _cpu() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime
