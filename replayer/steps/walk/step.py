"""Read every file of a table whole, with many threads, from a proven cold cache.

It imitates MemSQL's measure_reads.rb: list the files, then read each of them with the next free
thread of 50.  The database is out of it, so the numbers are the kernel's: many files, page cache,
read-ahead, device.
"""

import contextlib
import os
import resource
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from hdrh.histogram import HdrHistogram
from pydantic import Field, model_validator

from replayer.conditions import temperature
from replayer.conditions.residency import residency
from replayer.errors import Impossible, Skip
from replayer.model import (
    Better,
    Cold,
    Fact,
    Reads,
    StepSpec,
    Temperature,
)
from replayer.run.context import Context, Task
from replayer.run.findings import Findings
from replayer.storage import file_reader
from replayer.storage.file_reader import Haul, Queue, Said
from replayer.tables import persons, pgio, relations
from replayer.units import Size, show_size
from replayer.watch import foreign, ledger
from replayer.watch.foreign import Traffic
from replayer.watch.sampler import DeviceDelta, Sampler
from replayer.watch.workers import WorkerPool

_LONGEST_NS = 3600 * 10**9
_READY_SECONDS = 60.0
_GREW_WARM = 0.01
_MOST_NAMES = 3


class Spec(StepSpec):
    """The keys of a walk step."""

    threads: int = Field(50, ge=1, le=4096)
    mode: Literal["read", "mmap", "direct"] = "read"
    """`read` copies through the page cache, `mmap` faults pages in, `direct` goes around it."""
    # From 32k to 1M the MB/s were the same and the CPU seconds of 1 GiB grew from 0.25 to 0.50,
    # as with fio; below 128k more than a fifth of them was replayer's own.
    block_size: Size = Field(128 << 10, ge=512, le=1 << 30)
    cold: Temperature = Temperature.COLD
    """cold; lukewarm leaves the server running; hot reads everything once before."""
    table: str = persons.NAME
    """Any table of the database, with its schema if that is not replayer's own."""
    path: Path | None = None
    """A folder to walk instead, with all folders in it; it is only read."""

    @model_validator(mode="after")
    def _direct_blocks(self) -> Self:
        if self.mode == "direct" and self.block_size % file_reader.ALIGNMENT:
            raise ValueError(
                f"block_size must be a multiple of {file_reader.ALIGNMENT} bytes in direct mode"
            )
        return self


@dataclass(frozen=True)
class _Listing:
    """Every file to read, as the folders give them, and what it took to list them."""

    sizes: dict[str, int]
    entries: int
    user: float
    system: float
    real: float

    @property
    def bytes(self) -> int:
        """Return the sum of the files' sizes."""
        return sum(self.sizes.values())


@dataclass(frozen=True)
class _Reading:
    """The read phase: a window of the sampler, and what the threads brought."""

    begin_ns: int
    end_ns: int
    opened_ns: int
    first_done_ns: int
    last_done_ns: int
    user: float
    system: float
    own_bytes: int
    """What the threads' processes had from the device, as the kernel counts it."""
    hauls: Sequence[Haul]
    points: Sequence[tuple[int, float]]
    """Bytes read so far by clock."""

    @property
    def real(self) -> float:
        """Return seconds from the opening of the barrier to the last thread's end."""
        return self.since_opened(self.last_done_ns)

    @property
    def bytes(self) -> int:
        """Return the bytes that all threads read."""
        return sum(haul.read_bytes for haul in self.hauls)

    @property
    def reads(self) -> int:
        """Return the number of blocks that all threads read."""
        return sum(haul.reads for haul in self.hauls)

    def since_opened(self, clock_ns: int) -> float:
        """Return seconds between the opening of the barrier and a time."""
        return (clock_ns - self.opened_ns) / 1e9


def needs_database(spec: Spec) -> bool:
    """Return whether the files to read are a table's."""
    return spec.path is None


def check(spec: Spec, _context: Context) -> None:
    """Raise Impossible for a path that is no folder which can be read."""
    if spec.path is None:
        return
    if not spec.path.is_absolute():
        raise Impossible(f"walk: path = {str(spec.path)!r} must begin with a slash")
    try:
        os.scandir(spec.path).close()
    except OSError as error:
        raise Impossible(
            f"walk: the folder {spec.path} cannot be read: {error.strerror}"
        ) from error


def run(spec: Spec, context: Context) -> None:
    """Make the files cold, list them, read them."""
    check(spec, context)
    files = _files(spec, context)
    server = context.database_server if spec.path is None else None
    with _watching(spec, context) as sampler:
        if spec.mode == "direct":
            _need_direct(files)
        with context.progress.task(f"walk: making {spec.cold.value}"):
            cold = temperature.make(spec.cold, server, files, context.host)
        listing = _list(_folders(spec, files), None if spec.path else set(files))
        pids = foreign.pids_of(server)
        before = foreign.point(context.host, pids)
        reading = _read(spec, context, sampler, listing)
        after = foreign.point(context.host, pids)
        delta = sampler.device_delta(reading.begin_ns, reading.end_ns)
        series = sampler.series(
            reading.begin_ns, reading.end_ns, cumulative={"walk.bytes": reading.points}
        )
    own_bytes = reading.own_bytes if foreign.counts_reads(context.host) else None
    cold = temperature.finish(cold, delta.read_bytes if delta else None, own_bytes)
    own = Traffic(own_bytes, 0) if own_bytes is not None else None
    findings = context.findings
    findings.cold, findings.series = cold, series
    findings.foreign = foreign.between(before, after, delta, own)
    _measure(findings, listing, reading)
    findings.histogram("block", _histogram(reading.hauls))
    findings.facts |= _facts(spec, listing, reading)
    findings.notes += [*_notes(spec, files, listing, reading, cold), *_foreign(cold, delta)]
    findings.reads = _device_reads(spec, reading, cold, sampler.device)


# Files


def _files(spec: Spec, context: Context) -> list[str]:
    """Return the path of every file to read; raise Impossible or Skip if there is none."""
    if spec.path is not None:
        found = list(_list((str(spec.path),), None).sizes)
        if not found:
            raise Impossible(f"walk: there is no file in {spec.path}")
        return found
    folder = context.data_directory()
    with context.database() as database:
        if spec.table == persons.NAME:
            persons.needs(database)
            paths = relations.files(database, folder)
        else:
            paths = relations.files(database, folder, pgio.FILES, name=spec.table)
    if not paths:
        raise Impossible(f"walk: the table {spec.table!r} is not there, or has no files")
    return [str(path) for path in paths]


def _folders(spec: Spec, files: Iterable[str]) -> Sequence[str]:
    if spec.path is not None:
        return (str(spec.path),)
    return sorted({str(Path(path).parent) for path in files})


def _list(folders: Iterable[str], wanted: set[str] | None) -> _Listing:
    """List the folders, with those in them if nothing in particular is wanted, and time it."""
    sizes: dict[str, int] = {}
    entries = 0
    before, began = resource.getrusage(resource.RUSAGE_THREAD), time.monotonic_ns()
    for entry in _entries(folders, deep=wanted is None):
        entries += 1
        if wanted is None:
            if not entry.is_file(follow_symlinks=False):
                continue
        elif entry.path not in wanted:
            continue
        with contextlib.suppress(FileNotFoundError):
            sizes[entry.path] = entry.stat(follow_symlinks=False).st_size
    ended, after = time.monotonic_ns(), resource.getrusage(resource.RUSAGE_THREAD)
    return _Listing(
        sizes,
        entries,
        user=after.ru_utime - before.ru_utime,
        system=after.ru_stime - before.ru_stime,
        real=(ended - began) / 1e9,
    )


def _entries(folders: Iterable[str], *, deep: bool) -> Iterator["os.DirEntry[str]"]:
    """Yield everything in the folders and, with `deep`, in those below; links are not followed."""
    left = list(reversed(list(folders)))
    while left:
        folder = left.pop()
        try:
            with os.scandir(folder) as found:
                for entry in found:
                    if deep and entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    yield entry
        except OSError as error:
            raise Skip(f"the folder {folder} cannot be listed: {error.strerror}") from error


def _need_direct(files: Iterable[str]) -> None:
    """Raise Skip where the file system does not read around the page cache."""
    first = next(iter(files))
    why_not = file_reader.why_not_direct(first)
    if why_not:
        raise Skip(
            f'mode = "direct" was asked for, but {first} cannot be read with O_DIRECT ({why_not}); '
            f'mode = "read" and mode = "mmap" remain'
        )


# Reading


def _watching(spec: Spec, context: Context) -> contextlib.AbstractContextManager[Sampler]:
    """Give the sampler of the disk that the files are on."""
    if spec.path is None:
        return context.watching(context.sampler.device)
    return context.watching(context.host.device_of(spec.path), spec.path)


def _read(spec: Spec, context: Context, sampler: Sampler, listing: _Listing) -> _Reading:
    """Read every file with all threads."""
    queue = Queue(
        paths=tuple(listing.sizes),
        sizes=tuple(listing.sizes.values()),
        mode=spec.mode,
        block_size=spec.block_size,
    )
    processes = min(len(os.sched_getaffinity(0)), spec.threads)
    with (
        context.progress.task("walk", total=listing.bytes) as task,
        WorkerPool(file_reader.read_all, [queue] * spec.threads, processes=processes) as pool,
    ):
        pool.ready(timeout=_READY_SECONDS)
        begin_ns = sampler.mark()
        opened_ns = pool.open()
        said = list(_said(pool, task, opened_ns))
        hauls = pool.results()
        end_ns = sampler.mark()
        last_ns = pool.last_done_ns or end_ns
        return _Reading(
            begin_ns,
            end_ns,
            opened_ns,
            pool.first_done_ns or end_ns,
            last_ns,
            *pool.usage,
            own_bytes=pool.read_bytes,
            hauls=hauls,
            points=_points(said, opened_ns, last_ns, sum(haul.read_bytes for haul in hauls)),
        )


def _said(pool: WorkerPool, task: Task, opened_ns: int) -> Iterator[Said]:
    """Yield what the processes report, and show it."""
    latest: dict[int, int] = {}
    for said in pool.reports(timeout=0.5):
        if said is None:
            continue
        latest[said.pid] = said.read_bytes
        done = sum(latest.values())
        seconds = max((said.clock_ns - opened_ns) / 1e9, 1e-3)
        task.update(done=done, note=f"{show_size(done)}, {done / seconds / 1e6:,.0f} MB/s")
        yield said


def _points(
    said: Iterable[Said], opened_ns: int, last_ns: int, total: int
) -> list[tuple[int, float]]:
    """Return the bytes that all processes had read by clock, from nothing to all."""
    points = [(opened_ns, 0.0)]
    latest: dict[int, int] = {}
    for one in sorted(said, key=lambda one: one.clock_ns):
        latest[one.pid] = max(one.read_bytes, latest.get(one.pid, 0))
        points.append((one.clock_ns, float(sum(latest.values()))))
    return [*points, (last_ns, float(total))]


# What is told


def _measure(findings: Findings, listing: _Listing, reading: _Reading) -> None:
    files = sum(len(haul.files) for haul in reading.hauls)
    findings.measure("walk.files", files, "files", Better.NEITHER)
    findings.measure("walk.bytes", reading.bytes, "bytes", Better.NEITHER)
    for kind, phase in (("list", listing), ("read", reading)):
        for name in ("user", "system", "real"):
            # The files have a fixed size, so the seconds of reading say the same as the throughput.
            says = "walk.throughput" if (kind, name) == ("read", "real") else ""
            seconds = getattr(phase, name)
            findings.measure(f"walk.{kind}.{name}", seconds, "s", Better.LESS, says)
    findings.measure("walk.throughput", reading.bytes / reading.real, "bytes/s")
    findings.measure("walk.iops", reading.reads / reading.real, "1/s", says="walk.throughput")


def _device_reads(spec: Spec, reading: _Reading, cold: Cold, device: str | None) -> Reads | None:
    """Return the walk's reads where they were all the device's: a block at a time each thread."""
    if cold.got is not Temperature.COLD or device is None:
        return None
    return Reads(
        per_second=reading.reads / reading.real,
        block_bytes=spec.block_size,
        depth=spec.threads,
        access="sequential",
        device=device,
    )


def _facts(spec: Spec, listing: _Listing, reading: _Reading) -> dict[str, Fact]:
    return {
        "threads": spec.threads,
        "mode": spec.mode,
        "block_size_bytes": spec.block_size,
        "directory_entries": listing.entries,
        "reads": reading.reads,
        "first_thread_done_seconds": reading.since_opened(reading.first_done_ns),
        "last_thread_done_seconds": reading.real,
    }


def _histogram(hauls: Iterable[Haul]) -> HdrHistogram:
    histogram = HdrHistogram(1, _LONGEST_NS, 3)
    together: Counter[int] = Counter()
    for haul in hauls:
        together.update(haul.latencies)
    for nanoseconds, reads in together.items():
        histogram.record_value(min(max(nanoseconds, 1), _LONGEST_NS), reads)
    return histogram


def _notes(
    spec: Spec,
    files: Sequence[str],
    listing: _Listing,
    reading: _Reading,
    cold: Cold,
) -> Iterator[str]:
    paths = list(listing.sizes)
    missing = {paths[number] for haul in reading.hauls for number in haul.missing}
    yield from _named("vanished before it was read", missing | (set(files) - set(paths)))
    got = {paths[number]: size for haul in reading.hauls for number, size in haul.files}
    yield from _named("shrank", {path for path, size in got.items() if size < listing.sizes[path]})
    yield from _named("grew", {path for path in got if _size(path) > listing.sizes[path]})
    if spec.mode == "direct":
        yield from _not_around(files, cold)


def _foreign(cold: Cold, delta: DeviceDelta | None) -> Sequence[str]:
    """Say what others did on the device while the files were read."""
    if delta is None:
        return ()
    needed = cold.stored_bytes if cold.own_bytes is None else cold.own_bytes
    return ledger.foreign_traffic(needed or 0, delta, cold.own_bytes, 0, file_reader.ALIGNMENT)


def _named(what: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield one sentence that names the first of some files."""
    found = sorted(paths)
    if found:
        more = len(found) - _MOST_NAMES
        names = ", ".join(found[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
        yield f"{what} while the walk went on: {names}"


def _not_around(files: Sequence[str], cold: Cold) -> Iterator[str]:
    """Yield a sentence if direct reads have filled the page cache, as btrfs does at times."""
    share = residency(files).share
    if share is not None and share > (cold.resident_share or 0.0) + _GREW_WARM:
        yield (
            f"the file system read around O_DIRECT: {share:.0%} of the files are in the page cache "
            f"after the walk"
        )


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
