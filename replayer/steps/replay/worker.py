"""One worker process of a replay: many sessions on one event loop.

Each session runs its actions in their captured order.  At a speed above 0 every action has an
intended start, which is never moved.  A session that is still busy at that time begins the action
late.  The time at which the session became free is recorded with it: it shows whether the server or
replayer was the reason.  At speed 0 a session sends its next action as soon as it has the answer of
the last.

Only code that runs in worker processes is here and in what it imports; they load little.
"""

import contextlib
import gc
import resource
import select
import time
from dataclasses import dataclass

from replayer.steps.replay.commit_turns import CommitTurns
from replayer.steps.replay.connection_pool import ConnectionPool
from replayer.steps.replay.count_reporter import CountReporter
from replayer.steps.replay.replay_client import BUSY, CONNECTING, LoopClock, ReplayClient
from replayer.steps.replay.replay_statistics import (
    ORDER_TIMEOUTS,
    OUT_OF_TURN,
    ReplayStatistics,
)
from replayer.steps.replay.session_runner import SessionRunner
from replayer.steps.replay.timetable import SessionTimetable
from replayer.steps.replay.work import ReplayJob
from replayer.watch.workers import Barrier, Report, allow_all_files

_REPORT_NS = 1_000_000_000
_LONGEST_WAIT = 0.5


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """The result of one worker process; `cpu` is its CPU time as (user, system), in seconds."""

    ended: float
    """Second of the replay at which the last action of this process was over."""
    cpu: tuple[float, float]
    refusal: str
    """The server's reason to refuse connections, if sessions were given up for it; else ""."""


def work(job: ReplayJob, barrier: Barrier, report: Report) -> WorkerResult:
    """Run one process of a replay: connect, wait for all processes at `barrier`, replay.

    Connections that the server refuses before the barrier are tried again during the replay.
    """
    allow_all_files()
    with contextlib.ExitStack() as opened:
        loop = ReplayLoop(job, report, opened)
        loop.connect_first()
        gc.collect()
        gc.freeze()
        gc.disable()
        return loop.run(barrier.wait())


class ReplayLoop:
    """The event loop of a worker process: it waits for events, and handles each by its parts.

    The parts are the timetable, the connections, the order of commits, and the runner of actions.
    """

    def __init__(self, job: ReplayJob, report: Report, opened: contextlib.ExitStack) -> None:
        """Create the parts of the loop; closing `opened` closes them.

        `report` sends the counts of the work to the process that started this one.
        """
        timed = job.speed > 0
        self._connections = job.connections
        self._clock = clock = LoopClock()
        self._reporter = CountReporter(report, timed=timed)
        self._statistics = ReplayStatistics(
            job.process, clock, timed=timed, hashes=job.verify == "hash"
        )
        self._timetable = SessionTimetable(job, clock)
        opened.callback(self._timetable.close)
        self._turns = CommitTurns.of(job, clock)
        if self._turns is not None:
            opened.callback(self._turns.close)
        self._pool = ConnectionPool(job, clock, self._timetable, self._statistics, self._turns)
        opened.callback(self._pool.close)
        self._runner = SessionRunner(
            job, clock, self._timetable, self._pool, self._turns, self._statistics
        )
        self._pool.poll.register(self._timetable.alarm, select.EPOLLIN | select.EPOLLET)
        if self._turns is not None:
            self._turns.register(self._pool.poll)
        self._next_report = 0

    def connect_first(self) -> None:
        """Connect the sessions that exist when the replay begins."""
        for place in self._timetable.first(self._connections):
            self._pool.connect_now(self._timetable.enter(place))

    def run(self, begin_ns: int) -> WorkerResult:
        """Run the replay, which begins at `begin_ns`; return when all sessions are over.

        `begin_ns` is a time of the monotonic clock in ns.
        """
        self._clock.begin(begin_ns)
        self._next_report = begin_ns + _REPORT_NS
        before = _cpu()
        self._timetable.begin()
        self._run_all()
        self._tell()
        self._reporter.finish()
        after = _cpu()
        cpu = (after[0] - before[0], after[1] - before[1])
        ended = max(0, self._runner.ended_ns - begin_ns) / 1e9
        return WorkerResult(ended, cpu, self._pool.refusal)

    def _run_all(self) -> None:
        now, clock, timetable, runner = (
            time.monotonic_ns,
            self._clock,
            self._timetable,
            self._runner,
        )
        due, poll, clients = timetable.due, self._pool.poll.poll, self._pool.by_fd
        turns = self._turns
        while timetable.live:
            clock.seen_ns = now()
            while due and due[0][0] <= clock.seen_ns:
                if (client := timetable.take()) is not None:
                    runner.go(client)
                clock.seen_ns = now()
            if not timetable.live:
                break
            events = poll(self._sleep())
            clock.seen_ns = now()
            for fd, mask in events:
                client = clients.get(fd)
                if client is not None and client.state == BUSY:
                    runner.receive(client, mask)
                else:
                    self._handle(client, fd)
            if turns is not None:
                self._keep_order(turns)
            if clock.seen_ns >= self._next_report:
                self._tell()

    def _sleep(self) -> float:
        """Return the longest time, in seconds, that the loop may wait for events."""
        longest = _LONGEST_WAIT
        if self._turns is not None and (seconds := self._turns.sleep()) is not None:
            longest = min(longest, seconds)
            if released := self._turns.released():
                self._runner.release(released)
                return 0
        return self._timetable.sleep(longest)

    def _keep_order(self, turns: CommitTurns) -> None:
        """Let clients go on whose turn in the order of commits has come, or that waited too long.

        Also wake other processes, and look for deadlocks.
        """
        while released := turns.released():
            self._runner.release(released)
        turns.wake_others()
        for number in turns.late():
            self._runner.force(number, ORDER_TIMEOUTS)
        turns.look()

    def _handle(self, client: ReplayClient | None, fd: int) -> None:
        """Handle an event of a descriptor on which no answer to a statement is expected.

        It belongs to an attempt to connect, to an idle connection, or to the order of commits.  The
        timer's event only ends the sleep of the loop.
        """
        if client is not None and client.state == CONNECTING:
            self._runner.connect(client)
        elif client is not None:
            self._pool.read_interrupted(client)
        elif self._turns is not None:
            for going in self._turns.hear(fd):
                for number in going:
                    self._runner.force(number, OUT_OF_TURN)

    def _tell(self) -> None:
        """Queue a report of what happened since the last report, if anything did."""
        self._next_report = self._clock.seen_ns + _REPORT_NS
        taken = self._statistics.take(self._timetable.behind)
        if taken is not None:
            self._reporter.put(taken)


def _cpu() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime
