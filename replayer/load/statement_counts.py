"""Counts of statement times: histograms by kind, and series by the second."""

import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from replayer.load.mix_parts import KINDS
from replayer.watch.histogram import Latencies, Recorder

if TYPE_CHECKING:
    from array import array

_FIELDS = 4
"""Fields of a record: index of the statement, and its intended start, start and end in ns.

The index is -1 for a statement that the server refused, and that could be tried again.
"""
_FAILED = len(KINDS)
_SECOND = 10**9

Whole = npt.NDArray[np.int64]


def _none() -> Whole:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class LoadCounts:
    """Counts of the statements of one client process, or of several."""

    service: Mapping[str, Latencies] = field(default_factory=dict)
    """Kind of statement -> histogram of the times from the actual start to the answer."""
    response: Mapping[str, Latencies] = field(default_factory=dict)
    """Kind of statement -> histogram of the times from the intended start to the answer."""
    completed: Mapping[str, int] = field(default_factory=dict)
    """Kind of statement -> number of answers that came within the window."""
    busy_ns: int = 0
    """Sum over all sessions of the time with a statement under way within the window, in ns."""
    failed: int = 0
    """Statements that the server refused for a deadlock or the like."""
    begun: Whole = field(default_factory=_none)
    """Number of statements in each second, by their intended starts.

    The next two fields have the sum of their lags and their longest lag in each second, in ns.
    """
    lag_ns: Whole = field(default_factory=_none)
    longest_lag_ns: Whole = field(default_factory=_none)
    answers: Whole = field(default_factory=_none)
    """Number of answers in each second since the window's begin."""

    @classmethod
    def of(cls, parts: Sequence["LoadCounts"]) -> "LoadCounts":
        """Return the sum of the counts of several processes."""
        kinds = [kind for kind in KINDS if any(kind in part.service for part in parts)]
        return cls(
            service=_summed(kinds, [part.service for part in parts]),
            response=_summed(kinds, [part.response for part in parts]),
            completed={kind: sum(part.completed.get(kind, 0) for part in parts) for kind in kinds},
            busy_ns=sum(part.busy_ns for part in parts),
            failed=sum(part.failed for part in parts),
            begun=_stacked([part.begun for part in parts]).sum(axis=0),
            lag_ns=_stacked([part.lag_ns for part in parts]).sum(axis=0),
            longest_lag_ns=_stacked([part.longest_lag_ns for part in parts]).max(axis=0),
            answers=_stacked([part.answers for part in parts]).sum(axis=0),
        )


class Tallying:
    """A counter of statements and their times, which can work in a separate thread.

    It takes arrays of records: four integers for each statement.
    """

    FIELDS = _FIELDS
    ENOUGH = _FIELDS << 17
    """Length of an array of records that is worth a handover to the thread: 4 MiB."""

    def __init__(self, kinds: Sequence[str], seconds: float) -> None:
        # The index -1 selects the last element: refused.
        self._kinds = np.array([*map(KINDS.index, kinds), _FAILED])
        self._seconds = seconds
        self._service = {kind: Recorder() for kind in dict.fromkeys(kinds)}
        self._response = {kind: Recorder() for kind in self._service}
        self._completed = dict.fromkeys(self._service, 0)
        self._busy_ns = self._failed = 0
        self._lags: list[tuple[Whole, Whole, Whole, Whole]] = [(_none(),) * 4]
        self._waiting: queue.SimpleQueue[tuple[array[int], int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def later(self, records: "array[int]", begin_ns: int) -> None:
        """Queue records of statements, to be counted in a thread.

        The first call starts the thread.  `begin_ns` is the window's begin by the monotonic clock.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._count, daemon=True)
            self._thread.start()
        self._waiting.put((records, begin_ns))

    def _count(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            self._add(*waiting)

    def add(self, records: "array[int]", begin_ns: int) -> None:
        """Wait until all queued records are counted, then count `records`, the last ones.

        `begin_ns` is the window's begin by the monotonic clock.
        """
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        self._add(records, begin_ns)

    def finish(self) -> LoadCounts:
        """Return the counts of all records; call it after `add`."""
        begun, lag_ns, longest_lag_ns, answers = map(_stacked, zip(*self._lags, strict=True))
        return LoadCounts(
            service={kind: recorder.recorded() for kind, recorder in self._service.items()},
            response={kind: recorder.recorded() for kind, recorder in self._response.items()},
            completed=self._completed,
            busy_ns=self._busy_ns,
            failed=self._failed,
            begun=begun.sum(axis=0),
            lag_ns=lag_ns.sum(axis=0),
            longest_lag_ns=longest_lag_ns.max(axis=0),
            answers=answers.sum(axis=0),
        )

    def _add(self, records: "array[int]", begin_ns: int) -> None:
        rows = np.frombuffer(records, np.int64).reshape(-1, _FIELDS)
        kind = self._kinds[rows[:, 0]]
        refused = kind == _FAILED
        self._failed += int(refused.sum())
        rows, kind = rows[~refused], kind[~refused]
        intended, begun, done = rows[:, 1], rows[:, 2], rows[:, 3]
        end_ns = begin_ns + round(self._seconds * _SECOND)
        self._busy_ns += int((np.minimum(done, end_ns) - np.minimum(begun, end_ns)).sum())
        inside = done < end_ns
        for name, recorder in self._service.items():
            own = kind == KINDS.index(name)
            recorder.add((done - begun)[own])
            self._response[name].add((done - intended)[own])
            self._completed[name] += int((own & inside).sum())
        if len(rows):
            self._lags.append(_by_second(intended - begin_ns, begun - intended, done - begin_ns))


def _by_second(intended: Whole, lag: Whole, done: Whole) -> tuple[Whole, Whole, Whole, Whole]:
    """Return four series with a value for each second of the window.

    They are the statements begun, the sum of their lags, their longest lag, and the answers.  A lag
    counts in the second of the intended start.  Times are in ns since the window's begin.
    """
    second = intended // _SECOND
    longest = np.zeros(int(second.max()) + 1, np.int64)
    np.maximum.at(longest, second, lag)
    lags = np.bincount(second, weights=lag).astype(np.int64)
    return np.bincount(second), lags, longest, np.bincount(done // _SECOND)


def _stacked(series: Sequence[Whole]) -> Whole:
    """Return series as rows of one table; shorter series are padded with zeros."""
    rows = np.zeros((len(series), max(map(len, series), default=0)), np.int64)
    for row, values in zip(rows, series, strict=True):
        row[: len(values)] = values
    return rows


def _summed(kinds: Sequence[str], parts: Sequence[Mapping[str, Latencies]]) -> dict[str, Latencies]:
    """Return the histograms of several processes, added up for each kind of statement."""
    return {kind: Latencies.of(part[kind] for part in parts if kind in part) for kind in kinds}
