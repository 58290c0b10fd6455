"""The read phase of a walk: each thread that is free reads the next file, or range of a file.

A large file may be divided into ranges, so that all threads work.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from replayer.run.context import Context, Task
from replayer.run.event_stream.rates import Rates
from replayer.steps.walk.file_listing import FileListing
from replayer.steps.walk.spec import Spec
from replayer.storage import file_reader
from replayer.storage.file_reader import Queue, Range, ReadProgress, ReadResult
from replayer.units import show_size
from replayer.watch.sampler import Sampler
from replayer.watch.workers import WorkerPool

_READY_SECONDS = 60.0


@dataclass(frozen=True)
class WalkMeasurement:
    """The times, CPU seconds and results of the read phase of a walk, for all threads together.

    Times are in ns of the monotonic clock: `begin_ns` and `end_ns` of the measured window,
    `opened_ns` of the common start of all threads, `first_done_ns` and `last_done_ns` of the end of
    the first and of the last thread.  `user` and `system` are CPU seconds.  `hauls` has one result
    for each thread.
    """

    begin_ns: int
    end_ns: int
    opened_ns: int
    first_done_ns: int
    last_done_ns: int
    user: float
    system: float
    own_bytes: int
    """Bytes that the threads' processes read from the device, as the kernel counts them."""
    hauls: Sequence[ReadResult]
    pieces: int
    """The number of ranges of files that the threads read; 0 if they read whole files."""
    points: Sequence[tuple[int, float]]
    """Pairs (time in ns of the monotonic clock, bytes that all threads have read until then)."""

    @property
    def real(self) -> float:
        """Return the seconds from the common start of all threads to the end of the last one."""
        return self.since_opened(self.last_done_ns)

    @property
    def bytes(self) -> int:
        """Return the bytes that all threads read."""
        return sum(haul.read_bytes for haul in self.hauls)

    @property
    def reads(self) -> int:
        """Return the number of blocks that all threads read."""
        return sum(haul.reads for haul in self.hauls)

    @property
    def files(self) -> dict[int, int]:
        """Return index of a file in the listing -> bytes that were read of it."""
        read: dict[int, int] = {}
        for number, size in (piece for haul in self.hauls for piece in haul.files):
            read[number] = read.get(number, 0) + size
        return read

    def since_opened(self, clock_ns: int) -> float:
        """Return the seconds from the common start of all threads to `clock_ns`.

        `clock_ns` is a time of the monotonic clock in nanoseconds.
        """
        return (clock_ns - self.opened_ns) / 1e9


def watched_disk(spec: Spec, context: Context) -> contextlib.AbstractContextManager[Sampler]:
    """Return a context manager that yields the sampler of the disk with the files to read.

    A sampler copies the kernel's counters every second.
    """
    if spec.path is None:
        return context.watching(context.sampler.device)
    return context.watching(context.host.device_of(spec.path), spec.path)


def pieces_of(spec: Spec, listing: FileListing) -> tuple[Range, ...]:
    """Return the ranges of files that the threads are to read; () if they read whole files."""
    if spec.deal == "files":
        return ()
    return file_reader.deal(tuple(listing.sizes.values()), spec.threads, spec.block_size)


def read_files(
    spec: Spec, context: Context, sampler: Sampler, listing: FileListing
) -> WalkMeasurement:
    """Read every file of `listing` with all threads; return the times, bytes and latencies."""
    queue = Queue(
        paths=tuple(listing.sizes),
        sizes=tuple(listing.sizes.values()),
        mode=spec.mode,
        block_size=spec.block_size,
        ranges=pieces_of(spec, listing),
    )
    processes = min(len(os.sched_getaffinity(0)), spec.threads)
    # Never on client hosts: the files are here, and so is the memory that the threads share.
    with (
        context.progress.task("walk", total=listing.bytes) as task,
        WorkerPool(file_reader.read_all, [queue] * spec.threads, processes=processes) as pool,
    ):
        pool.ready(timeout=_READY_SECONDS)
        begin_ns = sampler.mark()
        opened_ns = pool.open()
        reports = list(_said(pool, task, opened_ns, context))
        hauls = pool.results()
        end_ns = sampler.mark()
        last_ns = pool.last_done_ns or end_ns
        return WalkMeasurement(
            begin_ns,
            end_ns,
            opened_ns,
            pool.first_done_ns or end_ns,
            last_ns,
            *pool.usage,
            own_bytes=pool.read_bytes,
            hauls=hauls,
            pieces=len(queue.ranges),
            points=_points(reports, opened_ns, last_ns, sum(haul.read_bytes for haul in hauls)),
        )


def _said(pool: WorkerPool, task: Task, opened_ns: int, context: Context) -> Iterator[ReadProgress]:
    """Yield the reports of the reading processes as they come, and show the bytes read as progress.

    The seconds of the rate count from `opened_ns`, the common start of all threads.
    """
    latest: dict[int, int] = {}
    files: dict[int, int] = {}
    rates = Rates(context.progress)
    for report in pool.reports(timeout=0.5):
        if report is None:
            continue
        latest[report.pid], files[report.pid] = report.read_bytes, report.files
        done = sum(latest.values())
        seconds = max((report.clock_ns - opened_ns) / 1e9, 1e-3)
        task.update(done=done, note=f"{show_size(done)}, {done / seconds / 1e6:,.0f} MB/s")
        rates.count({"bytes": done, "files": sum(files.values())})
        yield report


def _points(
    reports: Iterable[ReadProgress], opened_ns: int, last_ns: int, total: int
) -> list[tuple[int, float]]:
    """Return pairs (clock in nanoseconds, bytes that all processes have read until then).

    The first pair is the start with 0 bytes, and the last is the end with `total` bytes.
    """
    points = [(opened_ns, 0.0)]
    latest: dict[int, int] = {}
    for one in sorted(reports, key=lambda one: one.clock_ns):
        latest[one.pid] = max(one.read_bytes, latest.get(one.pid, 0))
        points.append((one.clock_ns, float(sum(latest.values()))))
    return [*points, (last_ns, float(total))]
