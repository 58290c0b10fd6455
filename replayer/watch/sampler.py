"""A thread that watches the kernel during a step: it only copies files; parsing comes later."""

import bisect
import math
import os
import pickle
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import ModuleType
from typing import NamedTuple, Protocol, Self

from replayer import registry
from replayer.collectors import Columns, Sample
from replayer.machine import diskstats
from replayer.machine.host import Host
from replayer.model import Series

_CHUNK = 1 << 16
_DIGITS = 6
_PACKED_AT = 64


@dataclass(frozen=True, slots=True)
class DeviceDelta:
    """The device's work between two marks; requests are counted after the kernel merged them."""

    seconds: float
    reads: int
    read_bytes: int
    writes: int
    write_bytes: int


class WindowWatcher(Protocol):
    """An object that is notified when a measured window begins or ends."""

    def prepare(self) -> None:
        """Do everything slow before a window begins or ends; `mark` is called right after this."""
        ...

    def mark(self, clock_ns: int) -> None:
        """Record that a window begins or ends at `clock_ns`, and return at once.

        `clock_ns` is in ns of CLOCK_MONOTONIC.
        """
        ...


class _Copy(NamedTuple):
    """Copies of all files at one time; None is a file that could not be read then."""

    clock_ns: int
    texts: tuple[bytes | None, ...]


class _Pack(NamedTuple):
    """Older copies, compressed, so that a long run on a large machine does not fill memory."""

    first_ns: int
    last_ns: int
    packed: bytes


class _Copies:
    """All copies of the watched files so far, in the order of time.

    The caller of `append` or `pack` holds the lock.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._packs: list[_Pack] = []
        self._recent: list[_Copy] = []
        self.newest: _Copy | None = None

    def append(self, copy: _Copy) -> None:
        """Add the newest copy."""
        self._recent.append(copy)
        self.newest = copy

    def pack(self) -> None:
        """Compress the recent copies if there are 64 or more that are not compressed."""
        if len(self._recent) >= _PACKED_AT:
            plain = pickle.dumps([tuple(copy) for copy in self._recent])
            first, last = self._recent[0].clock_ns, self._recent[-1].clock_ns
            self._packs.append(_Pack(first, last, zlib.compress(plain, 1)))
            self._recent = []

    def walk(self, begin_ns: int, end_ns: int) -> Iterator[_Copy]:
        """Yield the copies from `begin_ns` to `end_ns`, both included, in the order of the clock.

        Only a few copies at a time are unpacked in memory.
        """
        with self._lock:
            packs = [p for p in self._packs if p.first_ns <= end_ns and p.last_ns >= begin_ns]
            recent = [copy for copy in self._recent if begin_ns <= copy.clock_ns <= end_ns]
        for pack in packs:
            plain = pickle.loads(zlib.decompress(pack.packed))  # noqa: S301 - packed above
            yield from (_Copy(*copy) for copy in plain if begin_ns <= copy[0] <= end_ns)
        yield from recent


class Sampler:
    """Copies of the collectors' files, taken every `interval` seconds and at every `mark()`.

    A file that cannot be read never stops the watched step; `failures()` reports it.
    """

    def __init__(
        self,
        host: Host,
        device: str | None,
        *,
        interval: float = 1.0,
        clock: Callable[[], int] = time.monotonic_ns,
        watcher: WindowWatcher | None = None,
        layers: Sequence[str] | None = None,
    ) -> None:
        """Take the host and the block device to watch, and the seconds between two copies.

        `device` is None if there is none. `clock` returns the time in ns. `watcher` is notified
        when a window begins or ends. `layers` are all devices below the data, by default `device`.
        """
        self.device = device
        self.layers = tuple((device,) if device else ()) if layers is None else tuple(layers)
        """The devices that limits of cgroups may name: the disk, and those above it."""
        self.watcher = watcher
        self.cpu_seconds = 0.0
        """CPU seconds that the sampling thread has used."""
        self._interval = interval
        self._clock = clock
        self._collectors = {
            name: module
            for name in registry.names("collectors")
            if hasattr(module := registry.load("collectors", name), "FILES")
        }
        wanted = {file: None for module in self._collectors.values() for file in module.FILES}
        wanted[diskstats.FILE] = None
        # This file comes first, so that its copy is closest to the clock: the ledger is made from
        # it.
        self._files = sorted(wanted, key=lambda file: file != diskstats.FILE)
        self._host = host
        self._open: dict[str, int] = {}
        self._failed: dict[str, str] = {}
        self._lock = threading.Lock()
        self._copies = _Copies(self._lock)
        self._ended = threading.Event()
        self._due_ns = 0
        self._buffer = bytearray(_CHUNK)
        self._thread = threading.Thread(target=self._watch, name="sampler", daemon=True)
        self._epoch = (0, datetime.fromtimestamp(0, UTC))

    def __enter__(self) -> Self:
        self._epoch = (self._clock(), datetime.now(UTC))
        for file in self._files:
            try:
                self._open[file] = os.open(self._host.path(file), os.O_RDONLY)
            except OSError as error:
                self._failed[file] = _reason(file, error)
        self._edge()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def mark(self) -> int:
        """Copy all files now, because a window begins or ends; return the clock in ns at this copy.

        The next interval starts at this instant, so a window consists of whole intervals.
        """
        if self.watcher is None:
            return self._edge()
        # All slow preparation is done before the window begins, never in it.
        self.watcher.prepare()
        clock_ns = self._edge()
        self.watcher.mark(clock_ns)
        return clock_ns

    def _edge(self) -> int:
        with self._lock:
            copy = self._copy()
            self._due_ns = copy.clock_ns + int(self._interval * 1e9)
        return copy.clock_ns

    def device_delta(self, begin_ns: int, end_ns: int) -> DeviceDelta | None:
        """Return what the device did between two marks.

        None if there is no device, if one of the times is not that of a mark, if the device's
        counters were reset between them, or if they are switched off.
        """
        begin, end = self._device_at(begin_ns), self._device_at(end_ns)
        moved = diskstats.moved(begin, end) if begin and end else None
        if moved is None or self.device is None:
            return None
        # Some devices count although it is switched off: that is a failure only without a count.
        if not (moved.reads or moved.writes) and (
            off := diskstats.unaccounted(self._host, self.device)
        ):
            self._failed["diskstats"] = f"the kernel counts no requests: write 1 into {off}"
            return None
        return DeviceDelta(
            seconds=(end_ns - begin_ns) / 1e9,
            reads=moved.reads,
            read_bytes=moved.sectors_read * diskstats.SECTOR,
            writes=moved.writes,
            write_bytes=moved.sectors_written * diskstats.SECTOR,
        )

    def series(
        self,
        begin_ns: int,
        end_ns: int,
        cumulative: Mapping[str, Sequence[tuple[int, float]]] | None = None,
    ) -> Series:
        """Return every collector's columns between two marks, as `<collector>.<column>`.

        `cumulative` has the step's own counters: name -> points of (clock in ns, total). They
        become columns of rates per second over the same intervals. The length of an interval is as
        measured, so it may differ from `interval`. An unknown value is None.
        """
        times: list[int] = []
        columns: dict[str, list[float]] = {}
        for copies in _overlapping(self._readable(begin_ns, end_ns), _PACKED_AT):
            done = max(0, len(times) - 1)
            for name, module in self._collectors.items():
                for column, values in self._columns(name, module, copies).items():
                    _put(columns.setdefault(f"{name}.{column}", []), done, values)
            times.extend(copy.clock_ns for copy in copies[1 if times else 0 :])
        columns |= {name: rates(points, times) for name, points in (cumulative or {}).items()}
        for values in columns.values():
            _put(values, max(0, len(times) - 1), ())
        began, stamp = self._epoch
        return Series(
            started=(stamp + timedelta(microseconds=(begin_ns - began) / 1000)).isoformat(),
            seconds=tuple(round((time_ns - begin_ns) / 1e9, 3) for time_ns in times[1:]),
            columns={name: tuple(map(_tidy, values)) for name, values in columns.items()},
            device=self.device,
        )

    def newest(self, files: Sequence[str]) -> Sample | None:
        """Return the newest copy of these files, in their order; None if one of them is missing."""
        copy = self._copies.newest
        if copy is None or not set(files) <= set(self._files):
            return None
        return _sample(copy, [self._files.index(file) for file in files])

    def failures(self) -> dict[str, str]:
        """Return collector -> the reason why its files could not be read or parsed, once or more.

        Collectors without a failure are left out.
        """
        failed = {}
        for name, module in self._collectors.items():
            reasons = [self._failed[key] for key in (*module.FILES, name) if key in self._failed]
            if reasons:
                failed[name] = "; ".join(reasons)
        return failed

    def _watch(self) -> None:
        while not self._ended.wait(max(0.0, (self._due_ns - self._clock()) / 1e9)):
            with self._lock:
                # A mark may have moved the deadline while this thread waited for the old one.
                if self._clock() >= self._due_ns:
                    self._copy()
                    self._due_ns = self._next_deadline()
                    self._copies.pack()
            self.cpu_seconds = time.thread_time()

    def _next_deadline(self) -> int:
        """Return when the next copy has to be made, in ns of the clock.

        It is the first time after now that is a whole number of intervals after the last such time.
        So a delay does not shift later copies, and a copy that was missed is not made up for.
        """
        step = int(self._interval * 1e9)
        late = max(0, self._clock() - self._due_ns)
        return self._due_ns + (late // step + 1) * step

    def _copy(self) -> _Copy:
        clock_ns = self._clock()
        copy = _Copy(clock_ns, tuple(self._read(file) for file in self._files))
        self._copies.append(copy)
        return copy

    def _read(self, file: str) -> bytes | None:
        descriptor = self._open.get(file)
        if descriptor is None:
            return None
        parts = []
        offset = 0
        try:
            # The kernel returns such a file in pieces of about a page: read until nothing comes.
            while length := os.preadv(descriptor, [self._buffer], offset):
                parts.append(bytes(memoryview(self._buffer)[:length]))
                offset += length
        except OSError as error:
            self._failed.setdefault(file, _reason(file, error))
            return None
        return b"".join(parts)

    def _readable(self, begin_ns: int, end_ns: int) -> Iterator[_Copy]:
        """Yield the copies of a window, without those that make an interval too short.

        The copies at the begin and at the end are always yielded. A copy between them is left out
        if it is less than half an interval after the last one that was yielded, or before the end.
        """
        half = int(self._interval * 1e9) // 2
        kept: _Copy | None = None
        last: _Copy | None = None
        for last in self._copies.walk(begin_ns, end_ns):
            far = kept is None or last.clock_ns - kept.clock_ns >= half
            if kept is None or (far and end_ns - last.clock_ns >= half):
                kept = last
                yield last
        if last is not None and last is not kept:
            yield last

    def _columns(self, name: str, module: ModuleType, copies: Sequence[_Copy]) -> Columns:
        """Return a collector's columns, one value per interval between two copies.

        A value is nan if a file could not be read at the interval's begin or end.
        """
        indexes = [self._files.index(file) for file in module.FILES]
        samples = [_sample(copy, indexes) for copy in copies]
        columns: dict[str, list[float]] = {}
        for start, run in _whole_runs(samples):
            try:
                parsed = module.parse(run, self.device)
            except Exception as error:  # noqa: BLE001 - a watcher's failure is only reported
                self._failed.setdefault(name, f"{name} could not be understood: {error!r}")
                continue
            for column, values in parsed.items():
                row = columns.setdefault(column, [math.nan] * (len(samples) - 1))
                row[start : start + len(values)] = values
        return columns

    def _device_at(self, clock_ns: int) -> diskstats.DiskCounters | None:
        copy = next(self._copies.walk(clock_ns, clock_ns), None)
        if self.device is None or copy is None:
            return None
        text = copy.texts[self._files.index(diskstats.FILE)]
        return None if text is None else diskstats.counters(text, self.device)


def columns_of(
    cumulative: Mapping[str, Sequence[tuple[int, float]]], begin_ns: int, seconds: Sequence[float]
) -> dict[str, tuple[float | None, ...]]:
    """Return name of counter -> its rate per second in each interval of a series; None if unknown.

    `cumulative` has the points (clock in ns, total) of each counter. The first interval begins at
    `begin_ns`; `seconds` are the ends of the intervals, in seconds after that.
    """
    times = [begin_ns, *(begin_ns + round(second * 1e9) for second in seconds)]
    return {name: tuple(map(_tidy, rates(points, times))) for name, points in cumulative.items()}


def rates(points: Sequence[tuple[int, float]], times: Sequence[int]) -> list[float]:
    """Return a counter's rate per second in each interval between two of the `times`, in ns.

    `points` are (clock in ns, total); the total is interpolated between them. If the points cover
    only a part of an interval, the rate is that of this part, or nan if the part is less than half
    of the interval.
    """
    points = sorted(points)
    known = [point[0] for point in points]
    per_second = []
    for begin, end in pairwise(times):
        first, last = (max(begin, known[0]), min(end, known[-1])) if known else (end, begin)
        if 2 * (last - first) < end - begin or last <= first:
            per_second.append(math.nan)
        else:
            gained = _at(points, known, last) - _at(points, known, first)
            per_second.append(gained / ((last - first) / 1e9))
    return per_second


def _at(points: Sequence[tuple[int, float]], known: Sequence[int], clock_ns: int) -> float:
    place = bisect.bisect_right(known, clock_ns)
    if place == len(points):
        return points[-1][1]
    (first, before), (last, after) = points[place - 1], points[place]
    return before + (after - before) * (clock_ns - first) / (last - first)


def _reason(file: str, error: OSError) -> str:
    return f"/{file} cannot be read: {error.strerror or error}"


def _sample(copy: _Copy, indexes: Sequence[int]) -> Sample | None:
    texts = [copy.texts[index] for index in indexes]
    whole = tuple(text for text in texts if text is not None)
    return Sample(copy.clock_ns, whole) if len(whole) == len(texts) else None


def _whole_runs(samples: Sequence[Sample | None]) -> Iterator[tuple[int, list[Sample]]]:
    """Yield (index of the first, samples) of each sequence of two or more samples without None."""
    run: list[Sample] = []
    for place, sample in enumerate([*samples, None]):
        if sample is not None:
            run.append(sample)
            continue
        if len(run) > 1:
            yield place - len(run), run
        run = []


def _overlapping(copies: Iterable[_Copy], size: int) -> Iterator[list[_Copy]]:
    """Yield lists of 2 to `size` + 1 copies; each begins with the last copy of the list before."""
    part: list[_Copy] = []
    for copy in copies:
        part.append(copy)
        if len(part) > size:
            yield part
            part = [copy]
    if len(part) > 1:
        yield part


def _put(row: list[float], place: int, values: Sequence[float]) -> None:
    """Extend a row with nan until its length is `place`, then with the values."""
    row.extend([math.nan] * (place - len(row)))
    row.extend(values)


def _tidy(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
