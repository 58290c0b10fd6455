"""The results of a walk (reading all files of a table): measurements, facts, notes for a report."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from replayer.conditions.residency import residency
from replayer.model import (
    Better,
    Cold,
    Fact,
    Reads,
    Temperature,
)
from replayer.run.step_recorder import StepRecorder
from replayer.steps.walk.file_listing import FileListing
from replayer.steps.walk.reading import WalkMeasurement
from replayer.steps.walk.spec import Spec
from replayer.steps.walk.unstored import unstored_bytes
from replayer.storage import file_reader
from replayer.storage.file_reader import ReadResult
from replayer.units import show_size
from replayer.watch import ledger
from replayer.watch.histogram import Latencies
from replayer.watch.sampler import DeviceDelta

_GREW_WARM = 0.01
_MOST_NAMES = 3


def measure_walk(findings: StepRecorder, listing: FileListing, reading: WalkMeasurement) -> None:
    """Record the numbers that MemSQL's measure_reads.rb prints: files, bytes, seconds, throughput.

    The seconds are those of two phases: the listing and the reading of the files.
    """
    findings.measure("walk.files", len(reading.files), "files", Better.NEITHER)
    findings.measure("walk.bytes", reading.bytes, "bytes", Better.NEITHER)
    for kind, phase in (("list", listing), ("read", reading)):
        for name in ("user", "system", "real"):
            # The files have a fixed size, so the seconds of reading and the throughput are one
            # result.
            says = "walk.throughput" if (kind, name) == ("read", "real") else ""
            seconds = getattr(phase, name)
            findings.measure(f"walk.{kind}.{name}", seconds, "s", Better.LESS, says)
    findings.measure("walk.throughput", reading.bytes / reading.real, "bytes/s")
    findings.measure("walk.iops", reading.reads / reading.real, "1/s", says="walk.throughput")


def device_reads(
    spec: Spec, reading: WalkMeasurement, cold: Cold, device: str | None
) -> Reads | None:
    """Return the rate, size and depth of a walk's reads, which a report compares with a disk probe.

    The depth is the number of threads, because each thread waits for one block at a time.  Returns
    None if `device`, the name of the disk, is None, or if the files were not cold: then some reads
    came from memory.  Returns None as well if the files have holes or are compressed: then some
    reads needed no disk.
    """
    if cold.got is not Temperature.COLD or device is None or unstored_bytes(cold, reading.bytes):
        return None
    return Reads(
        per_second=reading.reads / reading.real,
        block_bytes=spec.block_size,
        depth=spec.threads,
        access="sequential",
        device=device,
    )


def facts_of(spec: Spec, listing: FileListing, reading: WalkMeasurement) -> dict[str, Fact]:
    """Return name -> value of the facts of a walk, such as threads, mode and number of reads."""
    return {
        "threads": spec.threads,
        "mode": spec.mode,
        "block_size_bytes": spec.block_size,
        "directory_entries": listing.entries,
        "reads": reading.reads,
        "dealt": f"{reading.pieces} ranges" if reading.pieces else "whole files",
        "first_thread_done_seconds": reading.since_opened(reading.first_done_ns),
        "last_thread_done_seconds": reading.real,
    }


def latencies_of(hauls: Iterable[ReadResult]) -> Latencies:
    """Return the latencies of the reads of all threads; `hauls` has one result for each thread."""
    return Latencies.of(Latencies.counted(haul.latencies) for haul in hauls)


def notes_of(
    spec: Spec,
    files: Sequence[str],
    listing: FileListing,
    reading: WalkMeasurement,
    cold: Cold,
) -> Iterator[str]:
    """Yield a sentence for each irregularity of the walk, such as files that grew meanwhile.

    `files` are the paths that were to be read, `cold` is the temperature before the reading.
    """
    paths = list(listing.sizes)
    missing = {paths[number] for haul in reading.hauls for number in haul.missing}
    yield from _other_names(listing)
    wanted = set(files) - set(listing.other_names)
    yield from _named("vanished before it was read", missing | (wanted - set(paths)))
    got = {paths[number]: size for number, size in reading.files.items()}
    yield from _named("shrank", {path for path, size in got.items() if size < listing.sizes[path]})
    yield from _named("grew", {path for path in got if _size(path) > listing.sizes[path]})
    if spec.mode == "direct":
        yield from _not_around(files, cold)


def foreign_notes(cold: Cold, delta: DeviceDelta | None) -> Sequence[str]:
    """Return sentences on the traffic of other programs on the disk while the files were read.

    `delta` is all traffic of the disk in that time; None if it is not known.  The result is empty
    if it is None, or if the traffic of other programs was small.
    """
    if delta is None:
        return ()
    needed = cold.stored_bytes if cold.own_bytes is None else cold.own_bytes
    return ledger.foreign_traffic(needed or 0, delta, cold.own_bytes, 0, file_reader.ALIGNMENT)


def _named(what: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield one sentence that names the first three of `paths`; nothing if there are none.

    `what` is the irregularity of these files, such as "grew".
    """
    ordered = sorted(paths)
    if ordered:
        more = len(ordered) - _MOST_NAMES
        names = ", ".join(ordered[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
        yield f"{what} while the walk went on: {names}"


def _other_names(listing: FileListing) -> Iterator[str]:
    """Yield a sentence if some files have further names (hard links), which were not read again."""
    names = listing.other_names
    if names:
        size = show_size(sum(names.values()))
        yield (
            f"{len(names):,} names of {size} are further names (hard links) of files in this walk: "
            f"each file was read once"
        )


def _not_around(files: Sequence[str], cold: Cold) -> Iterator[str]:
    """Yield a sentence if direct reads, which must bypass the page cache, left files in it.

    Some file systems, such as btrfs, do not always obey O_DIRECT.  `cold` has the share of the
    files that was in the page cache before.
    """
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
