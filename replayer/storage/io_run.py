"""Runs of jobs on the targets of one or more clients, begun at the same time and added up."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.errors import Impossible, ReplayerError
from replayer.storage.io_job import BlockOrder, IoThread
from replayer.storage.io_result import IoResult, overlapped, summed, together
from replayer.storage.io_worker import work
from replayer.watch import client_pools
from replayer.watch.workers import Counter, WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replayer.storage.io_job import IoJob, IoTarget, ThreadResult
    from replayer.watch.client_pools import Clients, Pool

_READY_SECONDS = 120.0
_PROCESSES_A_CORE = 4
_MOST_PROCESSES = 64
_BUSY_IDLE = 0.05
"""Below this idle share of processor time, the processors are the limit, not the storage."""
_MOST_LOOP = 0.05
"""With a larger share of its time in the Python loop, a thread is clearly slower than C code."""


@dataclass(frozen=True)
class IoRun:
    """The results of all jobs of all clients."""

    by_client: tuple[tuple[IoResult, ...], ...]
    """Results by client, then by job."""
    user_seconds: float
    system_seconds: float
    opened_ns: int
    done_ns: int
    idle: float | None = None
    """The idle share of the machine's processor time during the run; None if not known."""
    apart: bool = False
    """True if the clients are hosts, whose windows do not begin and end exactly together."""

    @property
    def processor_bound(self) -> bool:
        """Return whether the processors were the limit."""
        return self.idle is not None and self.idle < _BUSY_IDLE

    @property
    def loop_share(self) -> float:
        """Return the share of the processor time spent outside the kernel, that is, in Python."""
        return self.user_seconds / ((self.user_seconds + self.system_seconds) or 1)

    @property
    def loop_time(self) -> float:
        """Return the share of its time that a thread spent in the loop, without an operation.

        At depth 1 this is the share of the IOPS that the interpreter costs.
        """
        results = [one for results in self.by_client for one in results]
        whole = sum(one.job.threads * one.seconds for one in results)
        return self.user_seconds / whole if whole else 0.0

    @property
    def limit(self) -> str:
        """Return the limit other than the storage: `processors`, `interpreter`, or ""."""
        if self.processor_bound:
            return "processors"
        return "interpreter" if self.loop_time > _MOST_LOOP else ""

    def of(self, job: int = 0) -> IoResult:
        """Return the result of one job, all clients together."""
        results = [results[job] for results in self.by_client]
        return overlapped(results) if self.apart else together(results)

    @property
    def cpu_per_operation(self) -> float:
        """Return CPU seconds per operation, including those of the warm-up."""
        issued = sum(
            one.issued_reads + one.issued_writes for results in self.by_client for one in results
        )
        return (self.user_seconds + self.system_seconds) / issued


def run_io(
    jobs: Sequence[IoJob],
    targets: Sequence[IoTarget],
    *,
    watch: Callable[[int], None] | None = None,
    opened: Callable[[], None] | None = None,
) -> IoRun:
    """Run all jobs at once on each client's target.

    `opened` is called just before the barrier opens; `watch` is called at least once a second with
    the operations done since its last call.  Raises ReplayerError for the first error.
    """
    threads = [
        thread
        for client, target in enumerate(targets)
        for job in jobs
        for thread in _threads(job, target, client)
    ]
    # Only on this host: the threads of a file share a counter in shared memory.
    with WorkerPool(work, threads, processes=_processes(len(threads))) as pool:
        pool.ready(timeout=_READY_SECONDS)
        if opened is not None:
            opened()
        opened_ns = pool.open()
        for report in pool.reports(timeout=1.0):
            _all_there(targets)
            if watch is not None:
                watch(report or 0)
        shares = pool.results()
    return _sum(jobs, targets, shares, pool, opened_ns)


def run_io_on_hosts(
    jobs: Sequence[IoJob],
    targets: Sequence[IoTarget],
    clients: Clients,
    *,
    watch: Callable[[int], None],
    opened: Callable[[], None],
    ended: Callable[[Pool, Sequence[tuple[int, ThreadResult]]], None],
) -> IoRun:
    """Run all jobs at once, each host on its own target, as `run_io` does on this one.

    `ended` is called with the pool and with the host and result of each thread.  If a host is lost,
    it is called with the known hosts, and without results.
    """
    by_target = [
        [thread for job in jobs for thread in _apart(job, target, client)]
        for client, target in enumerate(targets)
    ]
    # A pool assigns its jobs to the hosts in turn.
    threads = [thread for turn in zip(*by_target, strict=True) for thread in turn]
    each = _processes(len(by_target[0]), clients.cores // len(targets))
    shares: list[ThreadResult] = []
    with clients.pool(work, threads, processes=each * len(targets)) as pool:
        try:
            pool.ready(timeout=_READY_SECONDS)
            _, opened_ns = client_pools.opened(pool, clients, opened)
            for report in pool.reports(timeout=1.0):
                watch(report or 0)
            shares = pool.results()
        finally:
            ended(pool, [(n % len(targets), share) for n, share in enumerate(shares)])
    rows = [shares[client :: len(targets)] for client in range(len(targets))]
    return replace(_sum(jobs, targets, list(chain(*rows)), pool, opened_ns), apart=True)


def _apart(job: IoJob, target: IoTarget, client: int) -> list[IoThread]:
    if job.access is BlockOrder.SHARED:
        raise Impossible(
            f"{job.name}: access = 'shared' takes its blocks from a counter in this host's memory, "
            f"which client hosts do not have: use sequential"
        )
    return [replace(thread, apart=True) for thread in _threads(job, target, client)]


def _processes(threads: int, cores: int | None = None) -> int:
    """Return the number of processes for these threads on so many processors (None: this host's).

    The threads of one process wait for each other at the interpreter's lock.  A hundred threads in
    two processes on two cores waited so at every third operation: with more processes, fewer
    threads share a lock.
    """
    if cores is None:
        cores = len(os.sched_getaffinity(0))
    return min(threads, max(cores, min(_PROCESSES_A_CORE * cores, _MOST_PROCESSES)))


def _threads(job: IoJob, target: IoTarget, client: int) -> list[IoThread]:
    """Return a job's threads on one client's target."""
    turn = Counter() if job.access is BlockOrder.SHARED else None
    return [IoThread(job, target, number, client, turn) for number in range(job.threads)]


def _sum(
    jobs: Sequence[IoJob],
    targets: Sequence[IoTarget],
    shares: Sequence[ThreadResult],
    pool: Pool,
    opened_ns: int,
) -> IoRun:
    rest = iter(shares)
    by_client = tuple(
        tuple(summed(job, [next(rest) for _ in range(job.threads)]) for job in jobs)
        for _ in targets
    )
    user, system = pool.usage
    return IoRun(by_client, user, system, opened_ns, pool.last_done_ns or opened_ns)


def _all_there(targets: Sequence[IoTarget]) -> None:
    """Raise ReplayerError if a file was removed: open descriptors would still read its data."""
    for target in targets:
        for path in (target.paths[0], target.paths[-1]):
            if not Path(path).exists():
                raise ReplayerError(
                    f"{path} was deleted by another program while it was in use; the figures of "
                    f"this measurement are not kept"
                )
