"""The only kind of latency histogram: nanoseconds, in the bins of an HdrHistogram of three digits.

A worker records into a Recorder. Latencies is the histogram of one worker, or the sum of several.
The form in result files is defined by results/stored_histogram.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Nanoseconds = np.ndarray[Any, np.dtype[np.int64]]

_HALF = 1024
"""Half the number of sub-buckets of an HdrHistogram with three significant digits."""
_NEVER = 1 << 62


class Recorder:
    """A store to which latencies are added while they are measured.

    `recorded` returns their histogram.
    """

    def __init__(self) -> None:
        self._counts: Any = None
        self._total = 0
        self._squares = 0.0
        self._least = _NEVER
        self._most = 0

    def add(self, spans: Nanoseconds, counts: Nanoseconds | None = None) -> None:
        """Add latencies in nanoseconds.

        `counts` has the number of operations with each latency. By default each is of one
        operation.
        """
        if not len(spans):
            return
        binned = np.bincount(bin_of(spans), counts).astype(np.int64)
        if self._counts is None:
            self._counts = binned
        else:
            longer, shorter = sorted((self._counts, binned), key=len, reverse=True)
            longer[: len(shorter)] += shorter
            self._counts = longer
        weights = 1 if counts is None else counts
        self._total += int((spans * weights).sum())
        self._squares += float((np.square(spans, dtype=np.float64) * weights).sum())
        self._least = min(self._least, int(spans.min()))
        self._most = max(self._most, int(spans.max()))

    def recorded(self) -> Latencies:
        """Return the histogram of all latencies added so far, without empty bins."""
        if self._counts is None:
            return Latencies()
        filled = self._counts.nonzero()[0]
        counts = self._counts[filled]
        return Latencies(
            bins=dict(zip(filled.tolist(), counts.tolist(), strict=True)),
            operations=int(counts.sum()),
            total_ns=self._total,
            squares=self._squares,
            least_ns=self._least,
            most_ns=self._most,
        )


def bin_of(spans: Nanoseconds) -> Nanoseconds:
    """Return, for each latency in nanoseconds, the index of its bin in the histogram.

    The bins are those of an HdrHistogram with three digits. Each value below 2048 has its own bin.
    Above that, each power of two is divided into 1024 bins.
    """
    wide = np.maximum(spans, 1) | (2 * _HALF - 1)
    bucket = np.frexp(wide.astype(np.float64))[1].astype(np.int64) - 11
    bins: Nanoseconds = bucket * _HALF + (spans >> bucket)
    return bins


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies in nanoseconds: percentiles are precise to 0.1 %, the other numbers are exact.

    `bins` is index of a bin -> number of operations. `squares` is the sum of the squared latencies.
    """

    bins: dict[int, int] = field(default_factory=dict)
    operations: int = 0
    total_ns: int = 0
    squares: float = 0.0
    least_ns: int = 0
    most_ns: int = 0

    @classmethod
    def of(cls, parts: Iterable[Latencies]) -> Latencies:
        """Return the sum of several histograms, such as those of all workers."""
        bins: dict[int, int] = {}
        filled = [part for part in parts if part.operations]
        for part in filled:
            for index, count in part.bins.items():
                bins[index] = bins.get(index, 0) + count
        return cls(
            bins=dict(sorted(bins.items())),
            operations=sum(bins.values()),
            total_ns=sum(part.total_ns for part in filled),
            squares=sum(part.squares for part in filled),
            least_ns=min((part.least_ns for part in filled), default=0),
            most_ns=max((part.most_ns for part in filled), default=0),
        )

    @classmethod
    def counted(cls, counts: Mapping[int, int]) -> Latencies:
        """Return the histogram of `counts`: latency in nanoseconds -> number of operations."""
        recorder = Recorder()
        spans, amounts = (
            np.fromiter(column, dtype=np.int64) for column in (counts.keys(), counts.values())
        )
        recorder.add(spans, amounts)
        return recorder.recorded()

    @classmethod
    def binned(cls, bins: Mapping[int, int]) -> Latencies:
        """Return the histogram of `bins`: index of a bin -> number of operations.

        The minimum, the maximum and the mean come from the highest value of each bin.
        """
        return cls.counted({_highest(index): count for index, count in bins.items()})

    @property
    def mean_ns(self) -> float:
        """Return the mean latency in nanoseconds, 0 without operations."""
        return self.total_ns / self.operations if self.operations else 0.0

    @property
    def deviation_ns(self) -> float:
        """Return the standard deviation in nanoseconds, 0 without operations."""
        if not self.operations:
            return 0.0
        return math.sqrt(max(0.0, self.squares / self.operations - self.mean_ns**2))

    def percentile_ns(self, share: float) -> float:
        """Return the latency that `share` percent of the operations do not exceed.

        The result is 0 without operations.
        """
        wanted = max(1, math.ceil(self.operations * share / 100))
        for index, count in self.bins.items():
            wanted -= count
            if wanted <= 0:
                return float(min(_highest(index), self.most_ns))
        return 0.0

    def doublings(self) -> list[tuple[int, int, int]]:
        """Return buckets as Oracle's ORION prints them: (from us, to us, number of operations).

        The first is 0 to 1 us; each next bucket ends at twice the end of the one before. A bin that
        crosses a border counts in the bucket of its middle.
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

    def counts(self) -> dict[int, int]:
        """Return highest latency of a bin in ns -> number of operations in this bin."""
        return {_highest(index): count for index, count in self.bins.items()}


def _lowest(index: int) -> int:
    """Return the lowest latency of a bin, in nanoseconds: the inverse of `bin_of`."""
    bucket = max(0, index // _HALF - 1)
    return (index - bucket * _HALF) << bucket


def _highest(index: int) -> int:
    bucket = max(0, index // _HALF - 1)
    return _lowest(index) + (1 << bucket) - 1
