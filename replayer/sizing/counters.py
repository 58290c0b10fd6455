"""Rates from totals of a server that are read repeatedly: never negative and without spikes.

There is a gap where one reading cannot be subtracted from the next: after a restart of the server,
a reset of its statistics, or a change of the clock.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from replayer.results.profile import KNOWN, Gap, ProfileSource, ResourceProfile

_CLOCK_STEP = 0.5
"""Seconds by which the time of day and the monotonic clock may differ from reading to reading."""
_SET_BACK = 0.99
"""Share of its former value: a total below it was reset.  A smaller fall is not a reset: some
totals are sums of several counters, which the server does not read at one instant."""


@dataclass(frozen=True, slots=True)
class SourceReading:
    """One reading of a server: its totals, and its gauges (values of this instant), by column."""

    clock: float
    """Seconds of the monotonic clock."""
    time: float
    """Seconds since 1970."""
    values: Mapping[str, float]
    """Column -> its total or gauge; NaN where it is not known.  The total of a rate is in the unit
    of the rate times seconds, e.g. megabytes for MB/s."""
    started: str = ""
    """Identifies the start of the server: it is another text after a restart."""
    resets: tuple[str, ...] = ()
    """Identify the last resets of the server's statistics: they differ after a reset."""


def gap(before: SourceReading, after: SourceReading) -> str:
    """Return why rates cannot be computed from two readings of a server; "" if they can."""
    step = (after.time - before.time) - (after.clock - before.clock)
    if before.started != after.started:
        return "the server was started anew"
    if before.resets != after.resets:
        return "the server's statistics were reset"
    if abs(step) > _CLOCK_STEP:
        return f"this machine's clock was set {'forward' if step > 0 else 'back'} {abs(step):.1f} s"
    for name, total in after.values.items():
        if not is_gauge(name) and total < _SET_BACK * before.values.get(name, math.nan):
            return f"the server's statistics were reset ({name} went back)"
    return ""


def moved(before: SourceReading, after: SourceReading) -> dict[str, float]:
    """Return column of a profile -> its value for the time between two readings.

    A total gives its rate per second.  A gauge, which is a value of one instant such as a size, is
    taken from the later reading.  There must be no gap between the readings.
    """
    seconds = after.clock - before.clock
    deltas = {
        name: total - before.values.get(name, math.nan)
        for name, total in after.values.items()
        if not is_gauge(name)
    }
    rates = {
        name: delta if math.isnan(delta) else max(0.0, delta) / seconds
        for name, delta in deltas.items()
    }
    return {**after.values, **rates}


def is_gauge(name: str) -> bool:
    """Return whether the profile's column `name` is a gauge, such as a size, and not a rate."""
    return KNOWN[name].kind == "gauge"


class Own:
    """The profiler's own work in some totals, which is subtracted from the rates of these totals.

    A server adds a session's work to its totals some time after the work was done.  If the
    profiler's work is more than the whole work of one row, the rest is subtracted from later rows.
    """

    def __init__(self, *names: str) -> None:
        self._pending = dict.fromkeys(names, 0.0)

    def did(self, much: float) -> None:
        """Note that the profiler's work adds `much`, such as 3 statements, to each of its totals.

        The totals are those that this object was made for.
        """
        for name in self._pending:
            self._pending[name] += much

    def taken_out(self, rates: dict[str, float], seconds: float) -> dict[str, float]:
        """Return column -> rate a second over `seconds`, without the profiler's own part of it."""
        without = dict(rates)
        for name, pending in self._pending.items():
            total = rates.get(name, math.nan) * seconds
            if not math.isnan(total):
                mine = min(pending, total)
                self._pending[name] = pending - mine
                without[name] = (total - mine) / seconds
        return without

    def forget(self) -> None:
        """Drop the profiler's work that is not subtracted yet.

        It is for a gap in the profile: it is not known what the totals counted during the gap.
        """
        self._pending = dict.fromkeys(self._pending, 0.0)


@dataclass(slots=True)
class UnsavedRows:
    """The rows of a profile that are not saved yet."""

    notes: list[str] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    _rows: list["_Row"] = field(default_factory=list)

    def add(self, end: float, clock: float, span: float, values: dict[str, float]) -> None:
        """Add a row with the values of its columns, for the `span` seconds before its end.

        `end` is the end in seconds since 1970, `clock` is the same instant on the monotonic clock.
        """
        self._rows.append(_Row(end, clock, span, values))

    def fill(self, begin: float, rates: Mapping[str, float]) -> None:
        """Add column -> rate to the newest rows: those that end after `begin`.

        `begin` is in seconds of the monotonic clock.  The rates are read less often than rows are
        added, and are the same in all these rows.
        """
        for row in reversed(self._rows):
            if row.clock <= begin:
                break
            row.values.update(rates)

    def profile(self, source: ProfileSource) -> ResourceProfile:
        """Return all unsaved rows, gaps and notes as a part of a profile."""
        rows = self._rows
        names = [name for name in KNOWN if any(name in row.values for row in rows)]
        return ResourceProfile(
            source,
            ends=np.array([row.end for row in rows], dtype=np.float64),
            spans=np.array([row.span for row in rows], dtype=np.float64),
            columns={
                name: np.array([row.values.get(name, math.nan) for row in rows]) for name in names
            },
            gaps=tuple(self.gaps),
            notes=tuple(self.notes),
        )

    def without(self, saved: ResourceProfile) -> None:
        """Remove the rows, gaps and notes of a profile that was saved; they are the first ones."""
        del self._rows[: saved.ends.size]
        del self.gaps[: len(saved.gaps)], self.notes[: len(saved.notes)]


class _Row(NamedTuple):
    end: float
    clock: float
    span: float
    values: dict[str, float]
