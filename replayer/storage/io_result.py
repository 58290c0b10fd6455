"""Add up what the threads of a job saw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hdrh.histogram import HdrHistogram

from replayer.errors import ReplayerError
from replayer.model import Latency

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from replayer.storage.io_job import IoJob, Recorded, Share

_HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True)
class Latencies:
    """Latencies in nanoseconds: exact count, mean, deviation and extremes, percentiles to 0.1 %."""

    bins: dict[int, int]
    operations: int = 0
    total_ns: int = 0
    squares: float = 0.0
    least_ns: int = 0
    most_ns: int = 0

    @classmethod
    def of(cls, parts: Iterable[Recorded | Latencies]) -> Latencies:
        """Return the sum of what several threads recorded."""
        bins: dict[int, int] = {}
        total, squares, least, most = 0, 0.0, None, 0
        for part in parts:
            pairs = (
                part.bins.items()
                if isinstance(part, Latencies)
                else zip(part.indexes, part.counts, strict=True)
            )
            many = 0
            for index, count in pairs:
                bins[index] = bins.get(index, 0) + count
                many += count
            if many:
                total += part.total_ns
                squares += part.squares
                least = part.least_ns if least is None else min(least, part.least_ns)
                most = max(most, part.most_ns)
        return cls(dict(sorted(bins.items())), sum(bins.values()), total, squares, least or 0, most)

    @property
    def mean_ns(self) -> float:
        """Return the mean, 0 without operations."""
        return self.total_ns / self.operations if self.operations else 0.0

    @property
    def deviation_ns(self) -> float:
        """Return the standard deviation of all operations."""
        if not self.operations:
            return 0.0
        return math.sqrt(max(0.0, self.squares / self.operations - self.mean_ns**2))

    def percentile_ns(self, share: float) -> float:
        """Return the value that `share` percent of the operations do not exceed."""
        wanted = max(1, math.ceil(self.operations * share / 100))
        for index, count in self.bins.items():
            wanted -= count
            if wanted <= 0:
                return float(min(_highest(index), self.most_ns))
        return 0.0

    def doublings(self) -> list[tuple[int, int, int]]:
        """Return ORION's buckets: (from us, to us, operations), each twice as wide as the last.

        A bin that lies across a border counts where its middle is.
        """
        buckets: dict[int, int] = {}
        for index, count in self.bins.items():
            middle_us = (_lowest(index) + _highest(index)) / 2000
            level = max(0, math.ceil(math.log2(middle_us))) if middle_us > 0 else 0
            buckets[level] = buckets.get(level, 0) + count
        highest = max(buckets, default=0)
        return [
            (0 if level == 0 else 1 << (level - 1), 1 << level, buckets.get(level, 0))
            for level in range(highest + 1)
        ]

    def payload(self) -> Latency:
        """Return them as a result file keeps them."""
        histogram = HdrHistogram(1, _HOUR_NS, 3)
        for index, count in self.bins.items():
            histogram.record_value(_highest(index), count)
        return Latency(payload=histogram.encode().decode("ascii"), operations=self.operations)


def _lowest(index: int) -> int:
    """Return the lowest nanoseconds of a bin: the inverse of drive.bin_of."""
    bucket = max(0, index // 1024 - 1)
    return (index - bucket * 1024) << bucket


def _highest(index: int) -> int:
    bucket = max(0, index // 1024 - 1)
    return _lowest(index) + (1 << bucket) - 1


@dataclass(frozen=True)
class IoResult:
    """What one job, or the same job of several clients, came to."""

    job: IoJob
    seconds: float
    reads: Latencies
    writes: Latencies
    issued_reads: int
    issued_writes: int
    per_second: tuple[int, ...]
    begin_ns: int

    @property
    def operations(self) -> int:
        """Return the operations that count."""
        return self.reads.operations + self.writes.operations

    @property
    def bytes(self) -> int:
        """Return the bytes that count."""
        return self.operations * self.job.block_size

    @property
    def iops(self) -> float:
        """Return operations per second."""
        return self.operations / self.seconds

    @property
    def throughput(self) -> float:
        """Return bytes per second."""
        return self.bytes / self.seconds

    @property
    def latencies(self) -> Latencies:
        """Return those of reads and writes together."""
        return Latencies.of([self.reads, self.writes])


def summed(job: IoJob, shares: Sequence[Share]) -> IoResult:
    """Return the sum of all threads' shares.

    The window is the job's own duration where the clock ended it, else it reaches from the barrier
    to the last operation.  Raises ReplayerError where nothing was done in it.
    """
    begin = shares[0].window_begin_ns
    last = max(share.last_ns for share in shares)
    seconds = (last - begin) / 1e9
    if job.seconds is not None and any(share.cut for share in shares):
        seconds = job.seconds
    result = IoResult(
        job=job,
        seconds=seconds,
        reads=Latencies.of(share.latencies[0] for share in shares),
        writes=Latencies.of(share.latencies[1] for share in shares),
        issued_reads=sum(share.issued[0] for share in shares),
        issued_writes=sum(share.issued[1] for share in shares),
        per_second=_added([share.per_second for share in shares]),
        begin_ns=begin,
    )
    if not result.operations or seconds <= 0:
        raise ReplayerError(
            f"{job.name}: no operation of {job.block_size} bytes ended within {seconds:g} s; "
            f"the storage hangs or the duration is too short"
        )
    return result


def together(results: Sequence[IoResult]) -> IoResult:
    """Return the sum of the same job of several clients: counts add up over the longest window."""
    first = results[0]
    return IoResult(
        job=first.job,
        seconds=max(one.seconds for one in results),
        reads=Latencies.of(one.reads for one in results),
        writes=Latencies.of(one.writes for one in results),
        issued_reads=sum(one.issued_reads for one in results),
        issued_writes=sum(one.issued_writes for one in results),
        per_second=_added([one.per_second for one in results]),
        begin_ns=first.begin_ns,
    )


def _added(many: Sequence[Sequence[int]]) -> tuple[int, ...]:
    longest = max((len(one) for one in many), default=0)
    return tuple(sum(one[at] if at < len(one) else 0 for one in many) for at in range(longest))


def summary(latencies: Latencies) -> dict[str, Any]:
    """Return the columns that every table of latencies has, in microseconds."""
    return {
        "avg_us": latencies.mean_ns / 1e3,
        "p50_us": latencies.percentile_ns(50) / 1e3,
        "p95_us": latencies.percentile_ns(95) / 1e3,
        "p99_us": latencies.percentile_ns(99) / 1e3,
        "max_us": latencies.most_ns / 1e3,
        "min_us": latencies.least_ns / 1e3,
        "stddev_us": latencies.deviation_ns / 1e3,
    }
