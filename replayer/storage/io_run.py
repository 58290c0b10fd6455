"""Run loads on the targets of one or more clients at a common instant and add up what they saw."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.errors import ReplayerError
from replayer.storage.io_job import Access, Job
from replayer.storage.io_result import Tally, tally, together
from replayer.storage.io_worker import work
from replayer.watch.workers import Counter, WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replayer.storage.io_job import Load, Share, Target

_READY_SECONDS = 120.0


@dataclass(frozen=True)
class Exercise:
    """What all loads of all clients came to."""

    by_client: tuple[tuple[Tally, ...], ...]
    """For each client, for each load."""
    user_seconds: float
    system_seconds: float
    opened_ns: int
    done_ns: int

    def of(self, load: int = 0) -> Tally:
        """Return one load, all clients together."""
        return together([tallies[load] for tallies in self.by_client])

    @property
    def cpu_per_operation(self) -> float:
        """Return CPU seconds for each operation, those of the warm-up included."""
        issued = sum(
            one.issued_reads + one.issued_writes for tallies in self.by_client for one in tallies
        )
        return (self.user_seconds + self.system_seconds) / issued


def exercise(
    loads: Sequence[Load],
    targets: Sequence[Target],
    *,
    watch: Callable[[int], None] | None = None,
    opened: Callable[[], None] | None = None,
) -> Exercise:
    """Run all loads at once on each client's target.

    `opened` is called just before the barrier is, `watch` with the operations done since it was
    last called, at least once a second.  Raises ReplayerError for the first thing that goes wrong.
    """
    jobs = [
        job
        for client, target in enumerate(targets)
        for load in loads
        for job in _jobs(load, target, client)
    ]
    processes = min(len(jobs), len(os.sched_getaffinity(0)))
    with WorkerPool(work, jobs, processes=processes) as pool:
        pool.ready(timeout=_READY_SECONDS)
        if opened is not None:
            opened()
        opened_ns = pool.open()
        for said in pool.reports(timeout=1.0):
            _all_there(targets)
            if watch is not None:
                watch(said or 0)
        shares = pool.results()
    return _sum(loads, targets, shares, pool, opened_ns)


def _jobs(load: Load, target: Target, client: int) -> list[Job]:
    """Return a load's threads on one client's target."""
    turn = Counter() if load.access is Access.SHARED else None
    return [Job(load, target, number, client, turn) for number in range(load.threads)]


def _sum(
    loads: Sequence[Load],
    targets: Sequence[Target],
    shares: Sequence[Share],
    pool: WorkerPool,
    opened_ns: int,
) -> Exercise:
    rest = iter(shares)
    by_client = tuple(
        tuple(tally(load, [next(rest) for _ in range(load.threads)]) for load in loads)
        for _ in targets
    )
    user, system = pool.usage
    return Exercise(by_client, user, system, opened_ns, pool.last_done_ns or opened_ns)


def _all_there(targets: Sequence[Target]) -> None:
    """Raise ReplayerError when a file has gone: its data would still be read, from nowhere."""
    for target in targets:
        for path in (target.paths[0], target.paths[-1]):
            if not Path(path).exists():
                raise ReplayerError(
                    f"{path} was deleted by somebody while it was in use; the figures of this "
                    f"measurement are not kept"
                )
