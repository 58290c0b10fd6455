"""Rolling windows over a series of averages: percentiles, the busiest window, time above a level.

A row is one average; it is valid from `end - span` to `end`.  Time without a row, or with NaN, is
not known: it is in no mean, no percentile and no share.  A window's mean is weighted by time, so
rows of different lengths may be mixed.  A window counts if four fifths of it are known.

A row shows nothing about windows that are shorter than the row: an average of 58 MB/s over an hour
once contained a minute of 413 MB/s.  Therefore such windows are not known, rather than equal to the
row.  Only the largest of them is at least the row, as a mean is not above all of its parts: among
windows that are mostly shorter, such a row is a window itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from replayer.units import show_duration

Numbers = NDArray[np.float64]

SECOND, MINUTE, TEN_MINUTES = 1.0, 60.0, 600.0
WINDOWS = (SECOND, MINUTE, TEN_MINUTES)
PERCENTILES = (50.0, 95.0, 99.0)
MINUTES_A_DAY = 1440.0
ENOUGH = 0.8
"""The share of a window that must be known."""
_EDGE = 0.05
"""The share of a window that may be missing if all rows together are shorter than the window."""
_TOUCHING = 0.05
"""The longest gap in seconds between consecutive rows: stamps are rounded."""
_JITTER = 1.1
"""The largest length of a row / length of a window: a row of 1.05 s still shows one second."""
_NEARLY_ALL = 95.0
_MOST_POINTS = 200


@dataclass(frozen=True, eq=False)
class Signal:
    """The known values of one quantity, in consecutive rows that do not overlap.

    `begins` and `ends` are in seconds, `values` are means over each row.  A mean over several rows
    is weighted by their length and by `weights`, which are per second: for example, a time per
    operation is weighted by the operations per second.  All arrays have one element for each row.
    """

    begins: Numbers
    ends: Numbers
    values: Numbers
    weights: Numbers

    @property
    def lengths(self) -> Numbers:
        """Return the length of each row of values in seconds."""
        return self.ends - self.begins

    @property
    def seconds(self) -> float:
        """Return the seconds for which the quantity is known: the sum of the rows' lengths."""
        return float(self.lengths.sum())


@dataclass(frozen=True, eq=False)
class Windows:
    """The means of a quantity over windows of time; one array element per window.

    `length` is the length of most windows in seconds, and `lengths` has that of each: a row that is
    longer is a window itself.  `ends` has the time in seconds at which each window ends.  `shares`
    has the seconds for which a window counts in percentiles.  A window that begins where a row
    begins has the share 0: it counts in no percentile, but it may have the largest mean.
    """

    length: float
    ends: Numbers
    means: Numbers
    shares: Numbers
    lengths: Numbers

    def with_candidates(self, more: "Windows") -> "Windows":
        """Return these windows with others that count in no percentile."""
        return self.with_more(replace(more, shares=np.zeros_like(more.shares)))

    def with_more(self, more: "Windows") -> "Windows":
        """Return these windows and others as one, of the same nominal length."""
        return Windows(
            self.length,
            ends=np.concatenate((self.ends, more.ends)),
            means=np.concatenate((self.means, more.means)),
            shares=np.concatenate((self.shares, more.shares)),
            lengths=np.concatenate((self.lengths, more.lengths)),
        )


@dataclass(frozen=True)
class WindowPercentiles:
    """Percentiles of the means over windows of one length, and the largest mean."""

    window: float
    percentiles: tuple[float, ...]
    """One value for each of PERCENTILES."""
    most: float
    most_end: float
    """The end of the window with the largest mean, in the same seconds as the signal."""
    seconds: float
    """The seconds that the percentiles are based on."""


def signal(
    ends: Numbers, spans: Numbers, values: Numbers, weights: Numbers | None = None
) -> Signal:
    """Return a signal of the rows whose value and weight are known, that is finite.

    A row is an average; `ends` and `spans` have the end and the length of each row in seconds.
    `ends` must not decrease.  A row that overlaps the row before it is cut: it begins where that
    one ends.  Without `weights`, a mean over rows is weighted by time only.
    """
    before = np.concatenate(([-np.inf], ends[:-1]))
    begins = np.maximum(ends - spans, before)
    weights = np.ones_like(ends) if weights is None else weights
    known = np.isfinite(values) & np.isfinite(weights) & (weights >= 0) & (ends > begins)
    return Signal(begins[known], ends[known], values[known], weights[known])


def joined(one: Signal, most: float) -> Signal:
    """Return a signal in which consecutive rows with the same value are joined to longer rows.

    A joined row is at most `most` seconds long.  This is for values that are averages over several
    rows and are repeated in each of them.
    """
    if not len(one.ends):
        return one
    new = np.ones(len(one.ends), dtype=bool)
    new[1:] = (np.diff(one.values) != 0) | (one.begins[1:] > one.ends[:-1] + _TOUCHING)
    first = one.begins[np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))]
    # A row that began within the limit belongs to the rows before, although it ends after it.
    part = np.floor((one.begins - first) / most + 1e-6)
    new[1:] |= np.diff(part) != 0
    starts = np.flatnonzero(new)
    lasts = np.append(starts[1:], len(new)) - 1
    return Signal(one.begins[starts], one.ends[lasts], one.values[starts], one.weights[starts])


def resolution(one: Signal) -> float:
    """Return the median length of rows in seconds, weighted by time; NaN without rows."""
    lengths = one.lengths
    return quantile(lengths, lengths, 50.0) if len(lengths) else np.nan


def coarsest(one: Signal) -> float:
    """Return the row length in seconds that is exceeded in 5 percent of the time at most.

    It is NaN without rows.
    """
    lengths = one.lengths
    return quantile(lengths, lengths, _NEARLY_ALL) if len(lengths) else np.nan


def are_longer(lengths: Numbers, length: float) -> NDArray[np.bool_]:
    """Return which rows, by their lengths in seconds, show nothing about windows of `length`."""
    return np.asarray(lengths > length * _JITTER)


def reason_unknown(one: Signal, length: float) -> str:
    """Return why a signal does not show what happens in windows of `length` seconds; "" if it does.

    The reason is that the profile lacks the quantity, or that in most of its time the values are
    averages over a longer time.
    """
    if not len(one.ends):
        return "not in the profile"
    fine = float(one.lengths[~are_longer(one.lengths, length)].sum())
    if fine < one.seconds / 2:
        return f"values are averages over {show_duration(resolution(one))}"
    return ""


def sliding(one: Signal, length: float) -> Windows:
    """Return a signal's means over all windows that end where a row ends or begin where one begins.

    `length` of a window is in seconds.  Rows that are clearly longer are left out, and so are
    windows of which less than four fifths are known.  The value within a row is constant, so the
    mean of a moving window is largest at one of these places.
    """
    fine = ~are_longer(one.lengths, length)
    begins, row_ends, values = one.begins[fine], one.ends[fine], one.values[fine]
    if not len(values):
        empty = np.empty(0)
        return Windows(length, empty, empty, empty, empty)
    # Sums over seconds since 1970 would lose their last digits.
    zero = begins[0]
    moving = _Moving(begins - zero, row_ends - zero, values, one.weights[fine], length)
    ending, that_end = moving.means(row_ends - zero)
    beginning, that_begin = moving.means(begins - zero + length)
    means = np.concatenate((ending, beginning))
    return Windows(
        length,
        ends=np.concatenate((row_ends[that_end], begins[that_begin] + length)),
        means=means,
        shares=np.concatenate(((row_ends - begins)[that_end], np.zeros(len(beginning)))),
        lengths=np.full(len(means), length),
    )


def covering(one: Signal, length: float) -> Windows:
    """Return the windows of `sliding`, and each longer row as a window itself.

    A longer row counts with its length: it is what is known about that time.
    """
    longer = are_longer(one.lengths, length)
    lengths = one.lengths[longer]
    rows = Windows(length, one.ends[longer], one.values[longer], lengths, lengths)
    return sliding(one, length).with_more(rows)


class _Moving:
    """A computation of a signal's means over a window of time that moves along its rows.

    All windows have the same length in seconds.
    """

    def __init__(
        self, begins: Numbers, ends: Numbers, values: Numbers, weights: Numbers, length: float
    ) -> None:
        self._length = length
        # Windows must not reach beyond the rows.  A part of such a window would stand for all of
        # it, and the busiest window would be one of these.
        missing = length - float(ends[-1] - begins[0])
        slack = missing if _TOUCHING < missing <= length * _EDGE else _TOUCHING
        self._from, self._to = begins[0] + length - slack, ends[-1] + slack
        self._least, self._most = values.min(), values.max()
        self._time = _Integral(begins, ends, np.ones_like(values))
        alike = bool((weights == 1).all())
        self._weight = None if alike else _Integral(begins, ends, weights)
        self._area = _Integral(begins, ends, values if alike else weights * values)

    def means(self, ends: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return (means, mask) of the windows that end at `ends`; only known windows have a mean.

        The ends are in seconds.  The mask has one element for each of them: True if at least four
        fifths of the window are known, it lies within the rows, and its weight is above 0.
        """
        known = self._time.between(ends - self._length, ends)
        counts = (known >= ENOUGH * self._length) & (ends >= self._from) & (ends <= self._to)
        high = ends[counts]
        low = high - self._length
        heavy = self._weight.between(low, high) if self._weight else known[counts]
        area = self._area.between(low, high)
        if self._weight:
            counts[counts] = heavy > 0
            area, heavy = area[heavy > 0], heavy[heavy > 0]
        # Rounding errors of sums must not make a mean outside of the rows' values.
        return np.clip(area / heavy, self._least, self._most), counts


class _Integral:
    """The integral over time of a function that is constant in each row and 0 between rows."""

    def __init__(self, begins: Numbers, ends: Numbers, heights: Numbers) -> None:
        self._at = np.column_stack((begins, ends)).ravel()
        areas = np.concatenate(([0.0], np.cumsum(heights * (ends - begins))))
        self._area = np.column_stack((areas[:-1], areas[1:])).ravel()

    def between(self, low: Numbers, high: Numbers) -> Numbers:
        """Return an array: the integral from each time in `low` to the same element of `high`."""
        upper, lower = (np.interp(at, self._at, self._area) for at in (high, low))
        return np.asarray(upper - lower, dtype=np.float64)


def spread(windows: Windows) -> WindowPercentiles | None:
    """Return percentiles and maximum of the means over windows; None if no window is known."""
    if not windows.shares.any():
        return None
    top = int(np.argmax(windows.means))
    return WindowPercentiles(
        window=windows.length,
        percentiles=quantiles(windows.means, windows.shares, PERCENTILES),
        most=float(windows.means[top]),
        most_end=float(windows.ends[top]),
        seconds=float(windows.shares.sum()),
    )


def quantile(values: Numbers, weights: Numbers, percentile: float) -> float:
    """Return the smallest value that covers `percentile` percent of the weight of all values.

    A value covers the weight of all values that do not exceed it.  `weights` are not negative, and
    not all 0.
    """
    return quantiles(values, weights, (percentile,))[0]


def quantiles(values: Numbers, weights: Numbers, percentiles: Sequence[float]) -> tuple[float, ...]:
    """Return, for each percentile, the smallest value that covers as much of all values' weight.

    A value covers the weight of all values that do not exceed it.  `percentiles` are from 0 to 100.
    `weights` are not negative, and not all 0.
    """
    counted = weights > 0
    values, weights = values[counted], weights[counted]
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    # Slightly less, so that 50 % of 10 equal weights is the fifth, and not the sixth by rounding.
    wanted = np.array(percentiles) / 100 * reached[-1] * (1 - 1e-12)
    at = np.minimum(np.searchsorted(reached, wanted), len(order) - 1)
    return tuple(values[order[at]].tolist())


def at_quantile(windows: Windows, percentile: float) -> int:
    """Return the index of the window whose mean is nearest to a percentile of all means.

    `percentile` is from 0 to 100; 100 is the window with the largest mean.
    """
    if percentile >= 100:
        return int(np.argmax(windows.means))
    value = quantile(windows.means, windows.shares, percentile)
    return int(np.argmin(np.abs(windows.means - value)))


def minutes_above(windows: Windows, level: float) -> float:
    """Return the minutes a day for which the means over windows are above a level.

    For a profile of less than a day, these are the minutes that were seen: the rest of the day is
    not known.
    """
    total = float(windows.shares.sum())
    above = float(windows.shares[windows.means > level].sum())
    return minutes_in_all(windows) * above / total if total else 0.0


def minutes_in_all(windows: Windows) -> float:
    """Return 1440, or the minutes for which the quantity is known if that is less than a day.

    They are the whole of which `minutes_above` returns a part.
    """
    counted = windows.shares > 0
    rows = windows.shares[counted]
    # The first window ends after its own length, of which only its last row has a share.
    first = windows.lengths[counted][:1]
    seconds = float(rows.sum() + first[0] - rows[0]) if len(rows) else 0.0
    return min(MINUTES_A_DAY, seconds / MINUTE)


def exceedance(windows: Windows) -> tuple[Sequence[float], Sequence[float]]:
    """Return (increasing levels, minutes a day for which means are above each level).

    There are at most 200 levels, which are means of windows.  Of a profile of less than a day, only
    the known minutes count.  Returns ((), ()) if no window is known.
    """
    if not windows.shares.any():
        return (), ()
    counted = windows.shares > 0
    levels, first = np.unique(windows.means[counted], return_inverse=True)
    shares = np.bincount(first, windows.shares[counted])
    above = minutes_in_all(windows) * (1 - np.cumsum(shares) / shares.sum())
    chosen = np.unique(np.linspace(0, len(levels) - 1, _MOST_POINTS).astype(int))
    return tuple(levels[chosen].tolist()), tuple(np.maximum(above[chosen], 0.0).tolist())


def mean_between(one: Signal, begin: float, end: float) -> float | None:
    """Return a signal's mean from `begin` to `end`, both in seconds.

    None if less than four fifths of this time are known, or if its weights are all 0.
    """
    lengths = np.minimum(one.ends, end) - np.maximum(one.begins, begin)
    inside = lengths > 0
    known = float(lengths[inside].sum())
    weights = lengths[inside] * one.weights[inside]
    if known < ENOUGH * (end - begin) or not weights.sum() > 0:
        return None
    return float((one.values[inside] * weights).sum() / weights.sum())


def known_shares(one: Signal, edges: Numbers) -> Numbers:
    """Return the known share, 0 to 1, of each interval between two neighbouring edges.

    `edges` are increasing times in seconds.
    """
    if not len(one.ends):
        return np.zeros(len(edges) - 1)
    begins, ends, at = one.begins - edges[0], one.ends - edges[0], edges - edges[0]
    known = _Integral(begins, ends, np.ones_like(ends)).between(at[:-1], at[1:])
    return np.asarray(known / np.diff(at), dtype=np.float64)


def grid(one: Signal, edges: Numbers) -> tuple[Numbers, Numbers]:
    """Return a signal's (means, largest values) in each interval between two neighbouring edges.

    `edges` are increasing times in seconds.  The largest value is that of the rows that end in the
    interval, but at least the mean.  NaN is an interval of which nothing is known, or in which all
    rows have the weight 0.
    """
    means = np.full(len(edges) - 1, np.nan)
    if not len(one.ends):
        return means, means
    zero = edges[0]
    begins, ends, at = one.begins - zero, one.ends - zero, edges - zero
    known = _Integral(begins, ends, np.ones_like(ends)).between(at[:-1], at[1:])
    weight = _Integral(begins, ends, one.weights).between(at[:-1], at[1:])
    area = _Integral(begins, ends, one.weights * one.values).between(at[:-1], at[1:])
    # Less than this may be only a rounding error of the sums.
    some = (known > np.minimum(1e-3, 1e-6 * np.diff(at))) & (
        weight > 1e-9 * weight.max(initial=0.0)
    )
    means[some] = np.clip(area[some] / weight[some], one.values.min(), one.values.max())
    most = np.full(len(means), -np.inf)
    place = np.clip(np.searchsorted(at, ends - 1e-6) - 1, 0, len(means) - 1)
    np.maximum.at(most, place, one.values)
    return means, np.where(some, np.maximum(most, means), np.nan)
