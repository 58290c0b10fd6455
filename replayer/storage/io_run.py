"""Run of the same I/O jobs for one or more clients, each on its own files, and its results."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.errors import Impossible, ReplayerError
from replayer.storage import compiled_loop
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
"""If a smaller share of processor time was idle, the processors are the limit, not the storage."""
_PACE = 0.9
"""If a job did at least this share of the operations of its rate, the rate was its limit."""
_MOST_LOOP = 0.05
"""If a thread spends a larger share of its time in Python, it is clearly slower than C code."""


@dataclass(frozen=True)
class IoRun:
    """The results of all I/O jobs of all clients, and the CPU seconds of their processes.

    The threads started at `opened_ns`, and the last one was done at `done_ns`, both in ns of
    CLOCK_MONOTONIC.
    """

    by_client: tuple[tuple[IoResult, ...], ...]
    """For each client, the results of all jobs."""
    user_seconds: float
    system_seconds: float
    opened_ns: int
    done_ns: int
    idle: float | None = None
    """The idle share of the machine's processor time during the run; None if not known."""
    own_bytes: int | None = None
    """Bytes that the worker processes read from devices; None if not known."""
    apart: bool = False
    """True if the clients are other hosts, whose windows differ a little."""

    @property
    def processor_bound(self) -> bool:
        """Return whether the processors were the limit: less than 5 percent of their time was idle.

        Returns False if the idle share is not known.
        """
        return self.idle is not None and self.idle < _BUSY_IDLE

    @property
    def loop_share(self) -> float:
        """Return the share, 0 to 1, of the workers' CPU time in user mode, which is Python code."""
        return self.user_seconds / ((self.user_seconds + self.system_seconds) or 1)

    @property
    def loop_time(self) -> float:
        """Return the share of its elapsed time that a thread spent in Python code, on average.

        The rest is spent in reads and writes.  With one thread, this is the share of the IOPS that
        is lost by the use of Python.  The warm-up counts, in CPU time as in elapsed time.
        """
        results = [one for results in self.by_client for one in results]
        whole = sum(one.job.threads * (one.job.warmup + one.seconds) for one in results)
        return self.user_seconds / whole if whole else 0.0

    @property
    def limit(self) -> str:
        """Return what limits the operations per second: `processors`, `interpreter`, or "".

        It is `interpreter` if a thread spends over 5 percent of its time in Python, and "" if the
        storage is the limit, or the rate that all jobs were asked to keep.  It is not `interpreter`
        if the loops were compiled.
        """
        if all(_keeps_pace(one) for results in self.by_client for one in results):
            return ""
        if self.processor_bound:
            return "processors"
        # The kernel divides CPU time into user's and its own by what it sees at its ticks.  Of a
        # loop that mostly sleeps this is far off: 14 percent of the time for 0.6 (perf).
        return "interpreter" if self.loop_time > _MOST_LOOP and not self.compiled else ""

    @property
    def compiled(self) -> bool:
        """Return whether the loops of all jobs were machine code."""
        return all(one.compiled for results in self.by_client for one in results)

    def of(self, job: int = 0) -> IoResult:
        """Return the sum of all clients' results of the job with the index `job`, from 0."""
        results = [results[job] for results in self.by_client]
        return overlapped(results) if self.apart else together(results)

    @property
    def cpu_per_operation(self) -> float:
        """Return the CPU seconds of the worker processes per read or write, warm-up included."""
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
    """Run all jobs at the same time for every client, on this host, and return their results.

    `targets` has the files of each client.  `opened` is called just before the jobs start.  `watch`
    is called at least once a second with the number of operations that were reported since its last
    call.  Raises ReplayerError for the first error of the storage, or if a file was removed.
    """
    threads = [
        thread
        for client, target in enumerate(targets)
        for job in jobs
        for thread in _threads(job, target, client)
    ]
    # Only on this host: the threads of a file share a counter in shared memory.
    wanted = all(one.compiled and one.job.compilable for one in threads)
    compiled = wanted and not compiled_loop.refusal()
    with WorkerPool(work, threads, processes=_processes(len(threads), compiled=compiled)) as pool:
        pool.ready(timeout=_READY_SECONDS)
        if opened is not None:
            opened()
        opened_ns = pool.open()
        for report in pool.reports(timeout=1.0):
            _all_there(targets)
            if watch is not None:
                watch(report or 0)
        shares = pool.results()
    return replace(_sum(jobs, targets, shares, pool, opened_ns), own_bytes=pool.read_bytes)


def run_io_on_hosts(
    jobs: Sequence[IoJob],
    targets: Sequence[IoTarget],
    clients: Clients,
    *,
    watch: Callable[[int], None],
    opened: Callable[[], None],
    ended: Callable[[Pool, Sequence[tuple[int, ThreadResult]]], None],
) -> IoRun:
    """Run all jobs at the same time on all client hosts, and return their results.

    `targets` has the files of each host.  `opened` is called just before the jobs start.  `watch`
    is called at least once a second with the number of operations that were reported since its last
    call.  `ended` is called at the end with the pool and a list of (index of the host, result) of
    each thread; after an error or a lost host the list is empty.
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


def _processes(threads: int, cores: int | None = None, *, compiled: bool = False) -> int:
    """Return the number of worker processes for `threads` threads on `cores` processors.

    If `cores` is None, it is the number of processors that this process may use.  The threads of
    one process wait for each other, because they share the interpreter's lock.  With a hundred
    threads in two processes on two cores, this happened at every third operation.  So there are
    more processes than cores, unless the loops are known to be `compiled`: these hold no lock.
    """
    if cores is None:
        cores = len(os.sched_getaffinity(0))
    each = 1 if compiled else _PROCESSES_A_CORE
    return min(threads, max(cores, min(each * cores, _MOST_PROCESSES)))


def _threads(job: IoJob, target: IoTarget, client: int) -> list[IoThread]:
    """Return an IoThread for each thread of a job; all of them work on the files `target`.

    `client` is the index, from 0, of the client that has these files.
    """
    turn = Counter() if job.access is BlockOrder.SHARED else None
    compiled = compiled_loop.installed()
    return [
        IoThread(job, target, number, client, turn, compiled=compiled)
        for number in range(job.threads)
    ]


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


def _keeps_pace(result: IoResult) -> bool:
    """Return whether a job with a rate kept it, warm-up included."""
    job = result.job
    whole = (job.rate or math.inf) * (job.warmup + result.seconds)
    return result.issued_reads + result.issued_writes >= _PACE * whole


def _all_there(targets: Sequence[IoTarget]) -> None:
    """Raise ReplayerError if the first or the last file of any target was removed.

    The worker processes would not notice it: an open file can still be read.
    """
    for target in targets:
        for path in (target.paths[0], target.paths[-1]):
            if not Path(path).exists():
                raise ReplayerError(
                    f"{path} was deleted by another program while it was in use; the figures of "
                    f"this measurement are not kept"
                )
