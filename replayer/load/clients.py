"""The clients: processes that hold many sessions each, and send statements when they are due.

In a closed loop a session sends the next statement when it has the answer of the last.  In an open
loop every statement has an intended start, drawn before the first is sent and never moved: it goes
to a free session, and where none is free it waits; that wait is in its response time.

What runs in worker processes is here, in modules that import little: no SQLAlchemy, no pydantic
model of a result.
"""

import contextlib
import gc
import resource
import select
import time
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from replayer.engines.driver import Connector
from replayer.load import wire
from replayer.load.alarm import Alarm
from replayer.load.arrivals import Arrivals, starts
from replayer.load.requests import Keys, Request, Requests, Statement
from replayer.load.tally import Tally, Tallying
from replayer.load.wire import Gone, Session
from replayer.watch.workers import Barrier, Report

_NEVER = 1 << 62
_AHEAD_NS = 300_000
"""Requests are drawn ahead where nothing is due for so long: drawing them takes half of it."""
_REPORT_NS = 1_000_000_000
_LONGEST_WAIT = 0.5


@dataclass(frozen=True, slots=True)
class ClientJob:
    """What one process needs; its sessions share one queue of intended starts."""

    process: int
    connector: Connector
    first: tuple[str, ...]
    """Statements that every session begins with, beside the connector's own."""
    names: tuple[tuple[str, ...], ...]
    """For each session, the statements that give it its name."""
    statements: tuple[Statement, ...]
    settle: tuple[str, ...]
    """Statements after which the server has counted all that a session did."""
    keys: Keys
    seconds: float
    rate: float | None
    """Statements a second of this process; None is a closed loop."""
    arrivals: Arrivals
    patience: float
    """Seconds of lag upon which a load that cannot be sustained is given up."""
    seed: int

    @property
    def sessions(self) -> int:
        """Return how many sessions the process holds."""
        return len(self.names)


@dataclass(frozen=True, slots=True)
class Point:
    """What a process says once a second."""

    seconds: float
    """Since the window's begin."""
    completed: int
    waiting_since: float
    """Seconds that the oldest statement waits that is due, 0 if none does."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What a process says when a session of it lost the server, or was refused a statement."""

    why: str


@dataclass(frozen=True, slots=True)
class ClientResult:
    """What one process did."""

    tally: Tally
    offered: int
    """Intended starts in the window; in a closed loop, the statements that were begun."""
    given_up: int
    """Of those the ones that were never begun."""
    busy_seconds: float
    """Sum over all sessions of the seconds with a statement under way, in the window."""
    cpu: tuple[float, float]
    """User and system seconds of the process in the window."""
    last_empty: float
    """Second of the window at which last no statement waited that was due."""
    ended: float
    """Second at which the last statement was done."""


def work(job: ClientJob, barrier: Barrier, report: Report) -> ClientResult | Lost:
    """Be one process of clients: connect all sessions, wait for the barrier, put on the load."""
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
                session.execute(job.settle)
        except Gone as error:
            lost = Lost(str(error))
            report(lost)
            return lost
        return clients.result()


def _session(job: ClientJob, names: Sequence[str]) -> Session:
    session = wire.connect(job.connector, (*job.first, *names))
    session.prepare(job.statements)
    # So that neither plans nor caches are made in the window.
    nothing = (0).to_bytes(8, "big")
    for place, statement in enumerate(job.statements):
        if statement.kind not in {"scan", "insert"}:
            session.send(place, [nothing] * len(statement.names))
            while session.receive() is False:
                select.select([session], [], [])
    session.execute(job.settle)
    return session


@dataclass(slots=True)
class _Sessions:
    """What each session has under way, by its number."""

    all: Sequence[Session]
    place: list[int] = field(default_factory=list)
    intended: list[int] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.place = [0] * len(self.all)
        self.intended = [0] * len(self.all)
        self.begun = [0] * len(self.all)


class _Clients:
    """The sessions of one process and what they have done."""

    def __init__(self, job: ClientJob, sessions: Sequence[Session], report: Report) -> None:
        self._job = job
        self._report = report
        self._sessions = _Sessions(sessions)
        self._free = deque(range(len(sessions)))
        self._poll = select.epoll()
        self._by_fd = {session.fileno(): number for number, session in enumerate(sessions)}
        for fd in self._by_fd:
            self._poll.register(fd, select.EPOLLIN)
        self._alarm = Alarm()
        self._poll.register(self._alarm.fd, select.EPOLLIN | select.EPOLLET)
        order = sessions[0].order
        self._requests = Requests(job.statements, job.keys, job.process, job.seed, order)
        self._ready: list[Request] = []
        self._ahead: list[Request] = []
        self._times = self._intended_starts()
        self._offered = len(self._times)
        self._begin = self._end = self._last = self._next_report = 0
        self._busy_ns = self._completed = self._given_up = 0
        self._last_empty = 0
        self._records = array("q")
        self._tallying = Tallying([one.kind for one in job.statements], job.seconds)
        self._cpu = (0.0, 0.0)

    def close(self) -> None:
        """Give the descriptors back."""
        self._alarm.close()
        self._poll.close()

    def _intended_starts(self) -> "array[int]":
        """Return all intended starts, the first one last, so that they can be popped."""
        job = self._job
        if job.rate is None:
            return array("q")
        random = np.random.Generator(np.random.PCG64([job.seed, job.process, 0]))
        parts = list(starts(job.rate, job.seconds, job.arrivals, random))
        times = np.concatenate([np.empty(0, np.int64), *parts])[::-1]
        return array("q", times.tobytes())

    def run(self, begin_ns: int) -> None:
        """Put on the load; return when every answer is there."""
        self._begin = self._last = begin_ns
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
        clock, times, free = time.monotonic_ns, self._times, self._free
        begin, patience = self._begin, round(self._job.patience * 1e9)
        due = begin + times.pop() if times else _NEVER
        everybody = len(free)
        while due != _NEVER or len(free) < everybody:
            now = clock()
            while due <= now and free:
                self._start(free.popleft(), due, now)
                due = begin + times.pop() if times else _NEVER
            if due > now:
                self._last_empty = min(now, self._end)
            elif now - due > patience:
                self._given_up, due = len(times) + 1, _NEVER
                times = array("q")
            self._wait(due if free else _NEVER, now)
            if now >= self._next_report:
                self._tell(now, due)

    def _run_closed(self) -> None:
        clock, free, end = time.monotonic_ns, self._free, self._end
        everybody = len(free)
        while True:
            now = clock()
            if now < end:
                self._offered += len(free)
                while free:
                    self._start(free.popleft(), now, now)
            elif len(free) == everybody:
                return
            self._last_empty = now
            self._wait(_NEVER, now)
            if now >= self._next_report:
                self._tell(now, _NEVER)

    def _start(self, number: int, intended: int, now: int) -> None:
        ready = self._ready
        if not ready:
            ready = self._ready = self._ahead or list(self._requests.batch())
            self._ahead = []
        place, values = ready.pop()
        sessions = self._sessions
        sessions.place[number] = place
        sessions.intended[number] = intended
        sessions.begun[number] = now
        sessions.all[number].send(place, values)

    def _wait(self, due: int, now: int) -> None:
        """Wait until something came, or a statement is due; take what came."""
        if due != _NEVER:
            if due - now > _AHEAD_NS and not self._ahead:
                self._ahead = list(self._requests.batch())
            self._alarm.set(due)
        events = self._poll.poll(_LONGEST_WAIT)
        done = time.monotonic_ns()
        # Those that were under way since the last look.
        self._busy_ns += self._in_flight() * (min(done, self._end) - min(self._last, self._end))
        self._last = done
        by_fd, sessions, free = self._by_fd, self._sessions, self._free
        record = self._records.extend
        for fd, _ in events:
            number = by_fd.get(fd, -1)
            if number < 0:
                continue
            answer = sessions.all[number].receive()
            if answer is False:
                continue
            place = sessions.place[number] if answer else -1
            record((place, sessions.intended[number], sessions.begun[number], done))
            free.append(number)
            self._completed += 1
        if len(self._records) >= Tallying.ENOUGH:
            self._tallying.later(self._records, self._begin)
            self._records = array("q")

    def _in_flight(self) -> int:
        return len(self._sessions.all) - len(self._free)

    def _tell(self, now: int, due: int) -> None:
        """Report how far it is, once a second."""
        self._next_report = now + _REPORT_NS
        waiting = max(0, now - due) / 1e9
        self._report(Point((now - self._begin) / 1e9, self._completed, waiting))

    def result(self) -> ClientResult:
        """Return what was done."""
        return ClientResult(
            tally=self._tallying.finish(),
            offered=self._offered,
            given_up=self._given_up,
            busy_seconds=self._busy_ns / 1e9,
            cpu=self._cpu,
            last_empty=(self._last_empty - self._begin) / 1e9,
            ended=(self._last - self._begin) / 1e9,
        )


def _cpu() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime
