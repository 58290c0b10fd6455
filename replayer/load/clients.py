"""Client processes: each holds many sessions and sends statements when they are due.

In a closed loop a session sends its next statement when it has the answer of the last one.  In an
open loop every statement has an intended start, drawn before the first statement is sent and never
moved.  At that time the statement goes to a free session.  If no session is free, it waits, and the
wait is part of its response time.

This module runs in worker processes, so it and the modules that it imports import little: no
SQLAlchemy, no pydantic model of a result.
"""

import contextlib
import gc
import resource
import select
import time
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from replayer.engines import driver
from replayer.engines.driver import Connector
from replayer.engines.wire_session import (
    ConnectionGone,
    DriverStatement,
    WireSession,
    await_answer,
    check_refusal,
)
from replayer.load.arrivals import Arrivals, starts
from replayer.load.requests import Keys, Request, Requests, StreamPart
from replayer.load.statement_counts import LoadCounts, Tallying
from replayer.load.timer import TimerFd
from replayer.watch.workers import Barrier, Report, distributable

_NEVER = 1 << 62
_AHEAD_NS = 400_000
"""Requests are drawn ahead if no statement is due for so long, in ns: drawing takes half of it."""
_REPORT_NS = 1_000_000_000
_LONGEST_WAIT = 0.5


@dataclass(frozen=True, slots=True)
class ClientJob:
    """The job of one client process; its sessions share one queue of intended starts.

    It contains no clock time, so that it is the same on every host.
    """

    number: int
    """Number of the process, from 0."""
    stream: int
    """Number of the stream of statements that the process sends, whole or in part."""
    part: StreamPart
    connector: Connector
    first: tuple[str, ...]
    """Statements that every session begins with, in addition to the connector's own."""
    names: tuple[tuple[str, ...], ...]
    """For each session, the statements that set its name."""
    statements: tuple[DriverStatement, ...]
    settle: tuple[str, ...]
    """Statements after which the server's counters include everything that a session did."""
    keys: Keys
    seconds: float
    rate: float | None
    """Statements a second of the whole stream; None means a closed loop."""
    arrivals: Arrivals
    resolution: float
    """Seconds between two checks for due statements and answers; 0 checks at once."""
    patience: float
    """Lag in seconds at which a load is given up as not sustainable."""
    seed: int

    @property
    def sessions(self) -> int:
        """Return the number of sessions of the process."""
        return len(self.names)


@dataclass(frozen=True, slots=True)
class ClientReport:
    """A progress report, sent by each process once a second."""

    number: int
    """Number of the process."""
    seconds: float
    """Seconds since the window's begin."""
    completed: int
    waiting_since: float
    """Seconds that the oldest due statement has waited, 0 if none waits."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """A report that a session lost the server, or that the server refused its statement."""

    why: str
    refused: bool = False
    """True if the server only refused a statement."""


@dataclass(frozen=True, slots=True)
class ClientResult:
    """The results of one process; times are relative to the window, not to a clock."""

    tally: LoadCounts
    offered: int
    """Intended starts in the window; in a closed loop, the statements that were begun."""
    given_up: int
    """Number of the offered statements that were never begun."""
    cpu: tuple[float, float]
    """User and system seconds of the process in the window."""
    last_empty: float
    """Seconds from the window's begin to the last time at which no due statement was waiting."""
    ended: float
    """Seconds from the window's begin to the last answer."""


@distributable
def work(job: ClientJob, barrier: Barrier, report: Report) -> ClientResult | SessionLost:
    """Run one client process: connect all sessions, wait for the barrier, run the load.

    Returns the results, or SessionLost if a session lost the server or had a statement refused.
    """
    with contextlib.ExitStack() as opened:
        sessions = [
            opened.enter_context(contextlib.closing(_session(job, names))) for names in job.names
        ]
        clients = _Clients(job, sessions, report)
        opened.callback(clients.close)
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            clients.run(barrier.wait())
            for session in sessions:
                session.run(job.settle)
        except ConnectionGone as error:
            lost = SessionLost(str(error), refused=error.refused)
            report(lost)
            return lost
        return clients.result()


def _session(job: ClientJob, names: Sequence[str]) -> WireSession:
    session = driver.connect_session(job.connector, *job.first, *names)
    session.prepare(job.statements)
    # Execute each statement once here, so that the window contains no planning and no cache
    # filling.
    nothing = session.packing.prefix + bytes(8)
    for place, statement in enumerate(job.statements):
        if statement.kind not in {"scan", "insert"}:
            session.send_prepared(place, nothing * len(statement.names))
            await_answer(session)
    session.run(job.settle)
    return session


def intended_starts(job: ClientJob) -> "array[int]":
    """Return the intended starts of a job's statements, latest first, in ns.

    They count from the window's begin.  Return an empty array for a closed loop, which has no
    intended starts.
    """
    if job.rate is None:
        return array("q")
    random = np.random.Generator(np.random.PCG64([job.seed, job.stream, 0]))
    parts = list(starts(job.rate, job.seconds, job.arrivals, random))
    times = np.concatenate([np.empty(0, np.int64), *parts])
    return array("q", times[job.part.has(0, len(times))][::-1].tobytes())


class _Clients:
    """The sessions of one process and their counts."""

    def __init__(self, job: ClientJob, sessions: Sequence[WireSession], report: Report) -> None:
        self._job = job
        self._report = report
        self._sessions = sessions
        self._under_way = [(0, 0, 0)] * len(sessions)
        """For each session: its statement's index, the intended and the actual start."""
        self._free = deque(range(len(sessions)))
        self._poll = select.epoll()
        self._by_fd = {session.fileno(): number for number, session in enumerate(sessions)}
        for fd in self._by_fd:
            self._poll.register(fd, select.EPOLLIN)
        self._alarm = TimerFd()
        self._poll.register(self._alarm.fd, select.EPOLLIN | select.EPOLLET)
        self._by_fd[self._alarm.fd] = -1
        packing = sessions[0].packing
        self._requests = Requests(
            job.statements, job.keys, job.stream, job.seed, packing, part=job.part
        )
        self._ready: list[Request] = []
        self._ahead: list[Request] = []
        self._times = intended_starts(job)
        self._offered = len(self._times)
        self._begin = self._end = self._seen = self._next_report = 0
        self._completed = self._given_up = 0
        self._last_empty = 0
        self._records = array("q")
        self._tallying = Tallying([one.kind for one in job.statements], job.seconds)
        self._cpu = (0.0, 0.0)

    def close(self) -> None:
        """Close the timer and the epoll descriptor."""
        self._alarm.close()
        self._poll.close()

    def run(self, begin_ns: int) -> None:
        """Run the load from `begin_ns` of the monotonic clock; return after the last answer."""
        self._begin = self._seen = begin_ns
        self._end = begin_ns + round(self._job.seconds * 1e9)
        self._next_report = begin_ns + _REPORT_NS
        before = _cpu()
        if self._job.rate is None:
            self._run_closed()
        else:
            self._run_open()
        user, system = _cpu()
        self._cpu = (user - before[0], system - before[1])
        self._tallying.add(self._records, self._begin)

    def _run_open(self) -> None:
        clock, free, patience = time.monotonic_ns, self._free, round(self._job.patience * 1e9)
        everybody, pause = len(free), self._job.resolution
        due, armed = self._next_start(), 0
        while due != _NEVER or len(free) < everybody:
            now = clock()
            while due <= now and free:
                self._start(free.popleft(), due, now)
                due = self._next_start()
            if due > now:
                # No statement waits until then; time after the window's end does not count.
                self._last_empty = min(due, self._end) if now < self._end else self._last_empty
            elif now - due > patience:
                self._given_up, due = len(self._times) + 1, _NEVER
                self._times = array("q")
            # While statements wait for a session, take each answer at once, without a pause.
            if pause and free:
                self._look_ahead(_NEVER)
                time.sleep(pause)
                self._take(self._poll.poll(0))
            else:
                if free and due not in {_NEVER, armed}:
                    armed = due
                    self._look_ahead(due - now)
                    self._alarm.set(due)
                self._take(self._poll.poll(_LONGEST_WAIT))
            if now >= self._next_report:
                self._tell(now, due)

    def _run_closed(self) -> None:
        free, end = self._free, self._end
        everybody = len(free)
        while True:
            # The time of a session between an answer and its next statement is in the service time.
            now = self._seen
            if now < end:
                self._offered += len(free)
                while free:
                    self._start(free.popleft(), now, now)
            elif len(free) == everybody:
                return
            self._last_empty = now
            self._take(self._poll.poll(_LONGEST_WAIT))
            if now >= self._next_report:
                self._tell(now, _NEVER)

    def _next_start(self) -> int:
        """Return the next intended start as a time of the monotonic clock in ns, and remove it.

        Return _NEVER if none is left.
        """
        return self._begin + self._times.pop() if self._times else _NEVER

    def _look_ahead(self, idle_ns: int) -> None:
        """Draw the next requests now, if the process is idle for long enough.

        `idle_ns` is the idle time.  The drawing then delays no statement.
        """
        if idle_ns > _AHEAD_NS and not self._ahead:
            self._ahead = self._requests.batch()

    def _start(self, number: int, intended: int, now: int) -> None:
        if not self._ready:
            self._ready = self._ahead or self._requests.batch()
            self._ahead = []
        place, payload = self._ready.pop()
        self._under_way[number] = (place, intended, now)
        self._sessions[number].send_prepared(place, payload)

    def _take(self, events: list[tuple[int, int]]) -> None:
        """Receive answers from the connections with an event, and record each complete answer.

        `events` are pairs of a descriptor and its event, from the poll.
        """
        done = self._seen = time.monotonic_ns()
        for fd, _ in events:
            number = self._by_fd[fd]
            # The timer's event carries no answer.
            if number >= 0 and (session := self._sessions[number]).receive():
                place, intended, begun = self._under_way[number]
                if session.sqlstate:
                    check_refusal(session)
                    place = -1
                self._records.extend((place, intended, begun, done))
                self._free.append(number)
        if len(self._records) >= Tallying.ENOUGH:
            self._completed += len(self._records) // Tallying.FIELDS
            self._tallying.later(self._records, self._begin)
            self._records = array("q")

    def _tell(self, now: int, due: int) -> None:
        """Report the progress, and set the time of the next report.

        `now` is the time in ns; `due` is the intended start that comes next or is late.
        """
        self._next_report = now + _REPORT_NS
        completed = self._completed + len(self._records) // Tallying.FIELDS
        seconds, behind = (now - self._begin) / 1e9, max(0, now - due) / 1e9
        self._report(ClientReport(self._job.number, seconds, completed, behind))

    def result(self) -> ClientResult:
        """Return the results of this process: counts, times, CPU seconds; call it after `run`."""
        # A process without a statement had none waiting, up to the window's end.
        least_ns = 0 if self._offered else round(self._job.seconds * 1e9)
        return ClientResult(
            tally=self._tallying.finish(),
            offered=self._offered,
            given_up=self._given_up,
            cpu=self._cpu,
            # A statement may wait from the first moment on.
            last_empty=max(least_ns, self._last_empty - self._begin) / 1e9,
            ended=max(least_ns, self._seen - self._begin) / 1e9,
        )


def _cpu() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime
