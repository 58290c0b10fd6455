"""A worker pool whose processes are on several hosts, with the interface of `WorkerPool`.

Jobs are distributed to the hosts in turn; a `watch.workers.WorkerPool` on each host does the host's
share. All jobs start at one agreed instant: each host sleeps until then by its own clock, whose
offset from this host's clock was measured. A result or report with instants of CLOCK_MONOTONIC has
a method `moved(by_ns)`, which the pool calls to convert these instants to this host's clock.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from replayer.cluster import packing, worker_process
from replayer.cluster.host_clock import HostClock, Offset
from replayer.cluster.share import HostShare
from replayer.errors import HostLost, ReplayerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    from replayer.cluster.event_loop import EventLoop
    from replayer.cluster.member import Member
    from replayer.watch.workers import Awaited, Work

_AHEAD_SECONDS = 2.0
"""The common start of the jobs is this long after its announcement to the hosts.

The announcement reaches 64 hosts within a second.
"""
_OPEN_SECONDS = 6.0
_KEPT = 64
"""The number of each host's latest reports that are kept, for use if the host is lost."""


@dataclass(slots=True)
class _Part:
    """One host's share of the jobs: the host, the numbers of these jobs, and their results.

    `clock` is that host's clock, and `opened_there` the start of its jobs in ns by that clock.
    `done` is the result of `_whole`. These three are None until they are known.
    """

    member: Member
    numbers: list[int]
    jobs: list[Any]
    processes: int
    clock: HostClock | None = None
    opened_there: int | None = None
    done: tuple[Any, ...] | None = None
    reports: deque[Any] = field(default_factory=lambda: deque(maxlen=_KEPT))

    @property
    def opened_ns(self) -> int | None:
        """Return when the jobs of `member` started, in ns of this host's clock; None if unknown."""
        if self.clock is None or self.opened_there is None:
            return None
        return self.clock.here(self.opened_there)

    @property
    def moved_ns(self) -> int:
        """Return the ns to add to an instant of the clock of `member` to get this host's clock."""
        return (self.opened_ns or 0) - (self.opened_there or 0)


class ClusterPool:
    """A pool whose jobs are done by several hosts, with `processes` processes in all.

    The jobs are distributed to the hosts, the `members`, in turn. `work` is the function that is
    called for each job. `awaited` is the server whose answers the jobs need, None if there is none.
    """

    def __init__(
        self,
        members: Sequence[Member],
        loop: EventLoop,
        work: Work,
        jobs: Sequence[Any],
        *,
        processes: int,
        awaited: Awaited | None = None,
    ) -> None:
        self._work = packing.name_of(work)
        self._loop, self._awaited, self._many = loop, awaited, len(jobs)
        self._parts = list(_dealt(members, jobs, processes))
        self._said: deque[Any] = deque()
        self._opening: Any = None
        self.opened_ns: int | None = None
        self.usage: tuple[float, float] = (0.0, 0.0)
        self.read_bytes = 0
        self.pids: list[int] = []

    def __enter__(self) -> Self:
        if self._awaited is not None:
            self._awaited.begin()
        try:
            packed = [packing.pack(part.jobs) for part in self._parts]
            self._loop.together(
                [
                    part.member.begin(worker_process.SHARE, self._work, data, part.processes)
                    for part, data in zip(self._parts, packed, strict=True)
                ]
            )
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    @property
    def shares(self) -> tuple[HostShare, ...]:
        """Return the times and the CPU use of each host that has a job, also of a lost host."""
        return tuple(self._share(part) for part in self._parts)

    @property
    def partial(self) -> dict[str, tuple[Any, ...]]:
        """Return name of host -> the latest reports of its jobs to the pool, at most 64 a host."""
        return {part.member.name: tuple(part.reports) for part in self._parts}

    @property
    def first_done_ns(self) -> int | None:
        """Return when the first job was done, in ns of this host's clock; None without results."""
        return min((_here(part, part.done[1]) for part in self._parts if part.done), default=None)

    @property
    def last_done_ns(self) -> int | None:
        """Return when the last job was done, in ns of this host's clock; None without results."""
        return max((_here(part, part.done[2]) for part in self._parts if part.done), default=None)

    def ready(self, timeout: float = 60.0) -> None:
        """Wait until every job of every host waits at the barrier.

        Raises ReplayerError after `timeout` seconds or if a job failed, HostLost for a lost host.
        """
        deadline = time.monotonic() + timeout
        while missing := [part for part in self._parts if part.member.state == "preparing"]:
            left = deadline - time.monotonic()
            if left <= 0:
                names = ", ".join(part.member.name for part in missing)
                raise ReplayerError(f"not ready after {timeout:g} s: the workers of {names}")
            self._listen(left)
        self._refuse_failed()

    def approach(self, lead: float = 0.0) -> None:
        """Agree with every host on the instant at which all jobs start, then wait for it.

        The wait ends `lead` seconds before that instant. A second call only waits.
        """
        if self._opening is None:
            self.ready()
            for part, offset in zip(self._parts, self._offsets(), strict=True):
                part.clock = HostClock(offset)
            self.opened_ns = time.monotonic_ns() + round((_AHEAD_SECONDS + lead) * 1e9)
            self._opening = [
                self._loop.begin(_open(part, self.opened_ns, lead)) for part in self._parts
            ]
        assert self.opened_ns is not None
        self._sleep_until(self.opened_ns - round(lead * 1e9))

    def open(self) -> int:
        """Start all jobs at the agreed instant; return this instant in ns of this host's clock."""
        self.approach()
        assert self.opened_ns is not None
        self._sleep_until(self.opened_ns)
        for part, opening in zip(self._parts, self._opening, strict=True):
            part.opened_there = opening.result()
        return self.opened_ns

    def reports(self, timeout: float = 1.0) -> Iterator[Any]:
        """Yield the jobs' reports until all jobs are done, and None for a pause in the reports.

        A None comes after every `timeout` seconds without a report. Raises HostLost for a lost
        host, ReplayerError if a job failed.
        """
        while True:
            ended = self._all_done()
            self._hear()
            while self._said:
                yield self._said.popleft()
            if ended:
                return
            if not self._listen(timeout):
                yield None

    def results(self, timeout: float | None = None) -> list[Any]:
        """Wait until all jobs are done and return their results in the order of the jobs.

        Raises ReplayerError after `timeout` seconds or if a job failed, HostLost for a lost host.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._all_done():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ReplayerError(f"the workers were not done after {timeout:g} s")
            self._listen(left)
        self._gather()
        results = {
            number: _moved(result, part.moved_ns)
            for part in self._parts
            for number, result in zip(part.numbers, _done(part)[0], strict=True)
        }
        return [results[number] for number in range(self._many)]

    def _gather(self) -> None:
        """Fetch the results of every host, and measure the clocks again."""
        if not all(part.done for part in self._parts):
            packed = self._loop.together([part.member.collected() for part in self._parts])
            for part, data, offset in zip(self._parts, packed, self._offsets(), strict=True):
                part.done = _whole(packing.unpack(data), part)
                if part.clock is not None:
                    part.clock = HostClock(part.clock.first, offset)
        self.usage = (
            sum(_done(part)[3][0] for part in self._parts),
            sum(_done(part)[3][1] for part in self._parts),
        )
        self.read_bytes = sum(_done(part)[4] for part in self._parts)

    def _offsets(self) -> list[Offset]:
        return self._loop.together([part.member.offset() for part in self._parts])

    def _all_done(self) -> bool:
        return all(part.member.state == "done" for part in self._parts)

    def _listen(self, timeout: float | None) -> bool:
        """Wait until a host or the awaited server sends something; return whether one did.

        The wait is at most `timeout` seconds, without limit for None. Raises HostLost if a host is
        lost, and ReplayerError if a host failed or the awaited server is silent.
        """
        awaited = self._awaited
        self._refuse_failed()
        happened = self._loop.wait(timeout, *([awaited.fileno()] if awaited else []))
        if awaited is not None and happened:
            awaited.handle_answer()
            awaited.raise_silence()
        self._hear()
        self._refuse_failed()
        return bool(happened)

    def _hear(self) -> None:
        for part in self._parts:
            while part.member.reports:
                report = _moved(packing.unpack(part.member.reports.popleft()), part.moved_ns)
                part.reports.append(report)
                self._said.append(report)

    def _refuse_failed(self) -> None:
        """Raise HostLost or ReplayerError for the first host that is lost or has failed."""
        for part in self._parts:
            member = part.member
            if member.lost:
                raise HostLost(member.lost)
            if member.state == "failed":
                raise member.failure(f"the host {member.host}: ")

    def _sleep_until(self, instant_ns: int) -> None:
        while (left := instant_ns - time.monotonic_ns()) > 0:
            self._refuse_failed()
            time.sleep(min(left / 1e9, 0.1))

    def _end(self) -> None:
        with contextlib.suppress(ReplayerError):
            self._loop.together([part.member.release() for part in self._parts])
        if self._awaited is not None:
            self._awaited.end()

    def _share(self, part: _Part) -> HostShare:
        member, start = part.member, self.opened_ns
        latest, done, clock = member.latest, part.done, part.clock

        def seconds(ns: int) -> float | None:
            return (ns - start) / 1e9 if start else None

        last_s = seconds(_here(part, done[2])) if done else None
        return HostShare(
            name=member.name,
            jobs=len(part.numbers),
            start_us=(part.opened_ns - start) / 1e3 if start and part.opened_ns else None,
            bound_us=clock.bound_ns / 1e3 if clock else None,
            drift_ppm=_ppm(clock.drift if clock else None),
            drift_bound_ppm=_ppm(clock.drift_bound if clock else None),
            first_s=seconds(_here(part, done[1])) if done else None,
            last_s=last_s,
            cores=member.about.cores if member.about else None,
            cpu_share=latest.get("cpu_share"),
            replayer_cores=sum(done[3]) / last_s if done and last_s else None,
            agent_cpu_s=latest.get("agent_cpu"),
            lost=bool(member.lost),
            heard_s=seconds(member.heard_ns),
            error=member.lost or latest.get("sentence", ""),
        )


def _dealt(members: Sequence[Member], jobs: Sequence[Any], processes: int) -> Iterator[_Part]:
    """Yield each host's part of the jobs: of n hosts, host i % n gets job i.

    `members` are the hosts. `processes` is the number of processes of all hosts together: a host's
    number is in proportion to its jobs, and at least 1. A host without a job has no part.
    """
    many = len(members)
    for place, member in enumerate(members):
        numbers = list(range(place, len(jobs), many))
        if numbers:
            share = -(-processes * len(numbers) // len(jobs))
            yield _Part(member, numbers, [jobs[number] for number in numbers], max(1, share))


async def _open(part: _Part, instant_ns: int, lead: float) -> int:
    assert part.clock is not None
    answer = await part.member.ask(
        "open", timeout=_AHEAD_SECONDS + lead + _OPEN_SECONDS, instant=part.clock.there(instant_ns)
    )
    return int(answer["opened"])


def _done(part: _Part) -> tuple[Any, ...]:
    assert part.done is not None, "its results have been gathered"
    return part.done


def _whole(done: Any, part: _Part) -> tuple[Any, ...]:
    """Return a host's results after a check of their form.

    They are (result of each job, end of the first job, end of the last job, CPU seconds in user
    mode and in the kernel, bytes read). The ends are in ns of that host's clock, None if no job
    ended. Raises ReplayerError if they have another form, or not one result for each job.
    """
    match done:
        case (list() as results, int() | None, int() | None, (a, b), int()) if len(results) == len(
            part.numbers
        ) and {type(a), type(b)} <= {int, float}:
            return tuple(done)
    raise ReplayerError(
        f"the host {part.member.host}: its results do not fit the work that it was given"
    )


def _here(part: _Part, ns: int | None) -> int:
    assert part.clock is not None
    return part.clock.here(ns or 0)


def _ppm(ratio: float | None) -> float | None:
    return None if ratio is None else ratio * 1e6


def _moved(value: Any, by_ns: int) -> Any:
    """Return a job's result or report with `by_ns` added to its instants, if it has any."""
    move = getattr(value, "moved", None)
    return move(by_ns) if callable(move) else value
