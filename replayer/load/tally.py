"""Every statement's times become counts: histograms with three digits, and series by the second."""

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from replayer.load.mix import KINDS

if TYPE_CHECKING:
    from array import array

_FIELDS = 4
"""Place of the statement (-1: it was refused, and might be tried again), intended, begun, done."""
_DIGIT_BITS = 11
"""HdrHistogram's buckets of three digits: 2,048 of them for each power of two."""
_MOST_NS = (1 << 42) - 1
"""Longer than an hour, which is the longest that the histograms of results hold."""
_FAILED = len(KINDS)

Counts = dict[int, int]
"""Nanoseconds -> how often."""


@dataclass(slots=True)
class Tally:
    """What became of the statements of one process, or of several."""

    service: dict[str, Counts] = field(default_factory=dict)
    """By kind: from the actual start to the answer."""
    response: Counts = field(default_factory=dict)
    """From the intended start to the answer."""
    completed: dict[str, int] = field(default_factory=dict)
    """By kind: answers that came within the window."""
    done: int = 0
    """Answers that came, also after the window."""
    failed: int = 0
    """Statements that the server refused for a deadlock or the like."""
    service_ns: int = 0
    response_ns: int = 0
    """Sums, of which means are made."""
    longest_response_ns: int = 0
    longest_service_ns: int = 0
    begun: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """By second of the intended start: how many, the sum of their lags and the longest, in ns."""
    lag_ns: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    longest_lag_ns: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    answers: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """By second: how many answers came."""

    def add(self, other: "Tally") -> None:
        """Add another process's."""
        for kind, counts in other.service.items():
            _merge(self.service.setdefault(kind, {}), counts)
        _merge(self.response, other.response)
        for kind, amount in other.completed.items():
            self.completed[kind] = self.completed.get(kind, 0) + amount
        self.done += other.done
        self.failed += other.failed
        self.service_ns += other.service_ns
        self.response_ns += other.response_ns
        self.longest_response_ns = max(self.longest_response_ns, other.longest_response_ns)
        self.longest_service_ns = max(self.longest_service_ns, other.longest_service_ns)
        self.begun = _summed(self.begun, other.begun)
        self.lag_ns = _summed(self.lag_ns, other.lag_ns)
        self.answers = _summed(self.answers, other.answers)
        longer = max(len(self.longest_lag_ns), len(other.longest_lag_ns))
        own, others = (
            np.pad(lags, (0, longer - len(lags)))
            for lags in (self.longest_lag_ns, other.longest_lag_ns)
        )
        self.longest_lag_ns = np.maximum(own, others)


class Tallying:
    """Counts records, in a thread of its own where that would hold up what is being measured."""

    ENOUGH = _FIELDS << 17
    """Numbers of as many records as are worth the effort, 4 MiB of them."""

    def __init__(self, kinds: Sequence[str], seconds: float) -> None:
        # The place -1 is the last of the list: refused.
        self._kinds = np.array([*map(KINDS.index, kinds), _FAILED])
        self._seconds = seconds
        self._tally = Tally()
        self._waiting: queue.SimpleQueue[tuple[array[int], int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def later(self, records: "array[int]", begin_ns: int) -> None:
        """Count them soon, beside what goes on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._count, daemon=True)
            self._thread.start()
        self._waiting.put((records, begin_ns))

    def _count(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            self._add(*waiting)

    def add(self, records: "array[int]", begin_ns: int) -> None:
        """Count the last of them, now."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        self._add(records, begin_ns)

    def finish(self) -> Tally:
        """Return the counts."""
        return self._tally

    def _add(self, records: "array[int]", begin_ns: int) -> None:
        rows = np.frombuffer(records, np.int64).reshape(-1, _FIELDS)
        if len(rows):
            self._tally.add(_tally(rows, self._kinds, begin_ns, self._seconds))


def _tally(
    rows: npt.NDArray[np.int64], kinds: npt.NDArray[np.int64], begin_ns: int, seconds: float
) -> Tally:
    """Return the counts of records."""
    kind = kinds[rows[:, 0]]
    refused = kind == _FAILED
    failed = int(refused.sum())
    if failed:
        rows, kind = rows[~refused], kind[~refused]
    intended, begun, done = rows[:, 1], rows[:, 2], rows[:, 3]
    service, response = done - begun, done - intended
    inside = done < begin_ns + round(seconds * 1e9)
    tally = Tally(response=counted(response), done=len(rows), failed=failed)
    for number, name in enumerate(KINDS):
        own = kind == number
        if own.any():
            tally.service[name] = counted(service[own])
            tally.completed[name] = int((own & inside).sum())
    tally.service_ns, tally.response_ns = int(service.sum()), int(response.sum())
    tally.longest_response_ns = int(response.max(initial=0))
    tally.longest_service_ns = int(service.max(initial=0))
    lag, second = begun - intended, (intended - begin_ns) // 10**9
    bins = int(second.max(initial=-1)) + 1
    tally.begun = np.bincount(second, minlength=bins)
    tally.lag_ns = np.bincount(second, weights=lag, minlength=bins).astype(np.int64)
    tally.longest_lag_ns = np.zeros(bins, np.int64)
    np.maximum.at(tally.longest_lag_ns, second, lag)
    tally.answers = np.bincount((done - begin_ns) // 10**9)
    return tally


def counted(values_ns: npt.NDArray[np.int64]) -> Counts:
    """Return how often each time was seen, cut to three digits as HdrHistogram does."""
    values = np.clip(values_ns, 1, _MOST_NS)
    # frexp's exponent is the number of bits of a whole number below 2**53.
    bits = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(0, bits - _DIGIT_BITS)
    cut, amounts = np.unique(values >> shift << shift, return_counts=True)
    return dict(zip(cut.tolist(), amounts.tolist(), strict=True))


def _merge(into: Counts, counts: Counts) -> None:
    for value, amount in counts.items():
        into[value] = into.get(value, 0) + amount


def _summed(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total
