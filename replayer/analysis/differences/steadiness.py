"""Tests of steadiness: repeats that warm up, seconds of a window that drift, boots that drift."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from replayer.analysis.differences.level_changes import Changes, Floats

# The repeats of a step


@dataclass(frozen=True, slots=True)
class Steady:
    """The steady part of a series of values: `values[start:]`, or nothing if `start` is None."""

    start: int | None
    left: bool = False
    """True if the series was steady once and is not at its end."""


WINDOW = 5
"""Values in the window that must be steady."""
SLOPE = 0.05
"""The window's least-squares line may move by this share of the mean, from first to last value."""
DEVIATION = 0.10
"""Each value of the window may be off the window's mean by this share of the mean."""
_SLOPE_ERRORS = 3.0
_DEVIATION_ERRORS = 3.5
_MOST_NOISE = 0.05
"""Noise widens both limits only up to this share; values with more noise are not steady."""


def steady(
    values: Sequence[float],
    *,
    window: int = WINDOW,
    slope: float = SLOPE,
    deviation: float = DEVIATION,
) -> Steady:
    """Return the steady part of the values, by the rule of fio's `steadystate`.

    A window of values is steady if its least-squares line moves less than `slope` of the mean over
    the window, and no value is further than `deviation` of the mean from it.  Both limits are
    raised if noise from value to value, up to 5 percent, would exceed them by itself.  The steady
    part starts at the first value of the first steady window.  Without a steady window its start is
    None.  `left` is True if there is a steady window, and the last one is not steady.  If there are
    fewer values than in a window, nothing can be judged, and all of them count.
    """
    series = np.asarray(values, dtype=np.float64)
    if series.size < window:
        return Steady(0)
    windows = np.lib.stride_tricks.sliding_window_view(series, window)
    means = windows.mean(axis=1)
    x = np.arange(window) - (window - 1) / 2
    drift = np.abs(windows @ x / (x @ x)) * (window - 1)
    furthest = np.abs(windows - means[:, None]).max(axis=1)
    noise = min(_MOST_NOISE, _noise(series))
    slope = max(slope, _SLOPE_ERRORS * noise * (window - 1) / math.sqrt(float(x @ x)))
    deviation = max(deviation, _DEVIATION_ERRORS * noise)
    calm = (drift <= slope * np.abs(means)) & (furthest <= deviation * np.abs(means))
    if not calm.any():
        return Steady(None)
    return Steady(int(np.argmax(calm)), left=not bool(calm[-1]))


def _noise(series: Floats) -> float:
    """Return the noise from value to value as a share of the median; a straight line has none.

    It is an estimate of the standard deviation, from second differences.  It is 0 if the median is.
    """
    middle = abs(float(np.median(series)))
    if not middle:
        return 0.0
    # Second differences are 0 on a line, and their variance is six times that of the values.  The
    # median of the absolute values of a normal distribution is 0.6745 of its standard deviation.
    return float(np.median(np.abs(np.diff(series, 2)))) / (0.6745 * math.sqrt(6)) / middle


# The seconds of one measurement


@dataclass(frozen=True, slots=True)
class Trend:
    """The movement of a line that is fitted to `series[begin:end]`, as a share of its mean."""

    share: float
    begin: int
    end: int
    ratio: float = 0.0
    """Twice the logarithm of the line's likelihood ratio to noise alone."""


WILD = 0.25
"""With more noise than this from second to second, a series is never steady, even without trend."""
LEAST_SECONDS = 8
"""With fewer values than this, a change cannot be distinguished from noise."""
_WARM_UP = 3
"""The first of this many equal parts is left out, as it may be warming up."""
_MOVED = 0.05
"""A line has moved if it does so by more than this share of the mean."""
_CONSISTENT = 0.5
_LEVEL = 0.10
"""A part of a series has another level if it differs by more than this share of the rest."""
_WARM_UP_COSTS = 0.05
_LEAST_PART = 3
"""Least number of values in a part with its own level, except in short and in long series."""
_PARTS = 12
"""A part with its own level has at least as many values as its series divided by this number."""
_MOST_POINTS = 120
"""More seconds than this are averaged in groups, because all possible parts are tested."""
FIFTH, THIRD = 0.20, 0.30
"""Changes of the last fifth and of any third of a series that must not hide in a steady one."""
_STALL = 0.5
_STALL_SURE = 5.0
_STOPPED = 0.1
_STOPPED_SURE = 2.0
_NORMAL_MAD = 0.6745
"""Median of absolute deviations / standard deviation, for a normal distribution."""

# Bounds of twice the logarithm of a likelihood ratio, by the number of values.  All were found by
# simulation of noise with autocorrelations from 0 to 0.8 (tests/benchmarks/verdicts.py).


def _part_bound(count: int) -> float:
    """Return the bound for the likelihood ratio of the best part of a series of `count` values.

    The ratio compares a part with another level to noise alone; it is twice the logarithm.  In 2 to
    3 percent of healthy series, which have only noise, the ratio exceeds it.
    """
    return max(17.5, 24 - 100 / count)


def _line_bound(count: int) -> float:
    """Return the bound for the likelihood ratio of a line through a series of `count` values.

    The ratio compares a sloping line to noise alone; it is twice the logarithm.  In 1 to 2 percent
    of healthy series, which have only noise, the ratio exceeds it.
    """
    return max(8.6, 7 + 78 / count)


_WARM_UP_BOUND = 15.0
"""The bound that the best beginning exceeds in 1 percent of healthy series."""


def _hidden_bound(count: int) -> float:
    """Return the bound up to which a given change may be hidden in a series of `count` values.

    It is for the likelihood ratio, twice its logarithm, of the best change to the given one.  The
    ratio is not above it in 95 percent of the series that have the given change.
    """
    return 4.5 + 40 / count


@dataclass(frozen=True, slots=True)
class Level:
    """A part of a series, `series[begin:end]`, whose values differ from the others.

    `share` is the distance of its level above that of the others, as a share of the latter.
    """

    share: float
    begin: int
    end: int
    ratio: float = 0.0
    """Twice the logarithm of the part's likelihood ratio to noise alone."""


@dataclass(frozen=True, slots=True)
class Unsteady:
    """The reason why a series of values is not steady, and the rule that shows it."""

    words: str
    """The end of a sentence, to follow "was"."""
    rule: str


def unsteady(values: Sequence[float]) -> Unsteady | None:
    """Return why a rate was not steady in a measured window; None if no test shows that.

    `values` has the rate in each second.  Noise alone is called unsteady in at most one of twenty
    windows.  This holds for noise up to 10 percent of the mean and an autocorrelation up to 0.8
    (tests/benchmarks/verdicts.py).
    """
    still = stalled(values)
    moved, other = trend(values), level(values)
    if still and (len(still) < _LEAST_PART or not (moved or other)):
        more = f" and {len(still) - 1} more" if len(still) > 1 else ""
        return Unsteady(
            f"stalled in second {still[0] + 1}{more}",
            f"a second with less than {_STALL:.0%} of the usual",
        )
    if other is not None and (moved is None or moved.ratio < other.ratio):
        return Unsteady(
            f"{abs(other.share):.0%} {'lower' if other.share < 0 else 'higher'} from second "
            f"{other.begin} to {other.end} than else",
            f"a level more than {_LEVEL:.0%} off fits, and noise does not",
        )
    if moved is not None:
        return Unsteady(
            f"drifting by {moved.share:+.0%} from second {moved.begin} to {moved.end}",
            f"a line that moves by more than {_MOVED:.0%} fits, and noise does not",
        )
    if wild(values):
        return Unsteady("never steady", f"over {WILD:.0%} of noise from second to second")
    return None


def hides_change(values: Sequence[float]) -> bool:
    """Return whether noise may hide a change of level, in a series that no test calls unsteady.

    `values` has a rate in each second.  The hidden change is one of 20 percent in the last fifth of
    the series, or of 30 percent in any third.  If a series has such a change, False is returned in
    at most one of twenty windows.
    """
    series = _judgeable(values)
    if series is None:
        return len(values) < LEAST_SECONDS
    points, _ = _grouped(series)
    at, warm = np.arange(points.size), points.size // _WARM_UP
    last, fifth = at >= points.size - warm, at >= points.size - points.size // 5
    rest = Changes(points[warm:], np.array([fifth, last, ~last], np.float64)[:, warm:])
    whole = Changes(points, np.array([at < warm], np.float64))
    ratios = [
        changes.against(way * np.array(shares))
        for changes, shares in ((rest, (FIFTH, THIRD, THIRD)), (whole, (THIRD,)))
        for way in (-1, 1)
    ]
    return bool(np.concatenate(ratios).min() <= _hidden_bound(points.size))


def trend(values: Sequence[float]) -> Trend | None:
    """Return the movement of the values from one end to the other; None if it may be noise.

    `values` has a rate in each second.  The first third may be warming up, so a line is fitted to
    the rest.  The values have moved if the line moves by more than 5 percent, and fits much better
    than noise alone, by a likelihood ratio.  A line through all values is more sensitive.  It
    counts, too, if the rest moved at least half as fast.
    """
    series = _judgeable(values)
    if series is None:
        return None
    first = series.size // _WARM_UP
    rest, whole = _line(series, first), _line(series, 0)
    if abs(rest.share) > _MOVED and rest.ratio > _part_bound(series.size):
        return rest
    speed = rest.share / (series.size - first - 1) * (series.size - 1)
    moved = abs(whole.share) > _MOVED and whole.ratio > _line_bound(series.size)
    return whole if moved and speed / whole.share >= _CONSISTENT else None


def _line(series: Floats, begin: int) -> Trend:
    """Return the line fitted to `series[begin:]`, even if its movement may be noise."""
    rest = series[begin:]
    changes = Changes(rest, np.linspace(-0.5, 0.5, rest.size)[None, :])
    return Trend(float(changes.shares[0]), begin, series.size, float(changes.ratios[0]))


def level(values: Sequence[float]) -> Level | None:
    """Return the part of a series that has another level than the rest; None if there is none.

    `values` has a rate in each second.  All parts of the last two thirds are tested (the epidemic
    change of Levin and Kline, 1985).  The part must be off by 10 percent, and fit much better than
    noise alone, by a likelihood ratio.  The beginning may be warming up: its level counts only if
    it moves the mean by over 5 percent.
    """
    series = _judgeable(values)
    if series is None:
        return None
    points, length = _grouped(series)
    warm, count = points.size // _WARM_UP, points.size
    found = _likeliest(points[warm:], _parts(count), np.array(_LEVEL), _part_bound(count))
    if found is None:
        begun = np.tri(count // 2, count)
        warm, costs = 0, _WARM_UP_COSTS * count / begun.sum(axis=1)
        found = _likeliest(points, begun, costs, _WARM_UP_BOUND)
    if found is None:
        return None
    end = series.size if warm + found.end == count else (warm + found.end) * length
    return replace(found, begin=(warm + found.begin) * length, end=end)


def _judgeable(values: Sequence[float]) -> Floats | None:
    """Return the values as an array; None if they are less than 8 or their mean is not above 0."""
    series = np.asarray(values, dtype=np.float64)
    return series if series.size >= LEAST_SECONDS and series.mean() > 0 else None


def _grouped(series: Floats) -> tuple[Floats, int]:
    """Return a series as at most 120 means, and the number of values in each mean."""
    length = -(-series.size // _MOST_POINTS)
    return series[: series.size - series.size % length].reshape(-1, length).mean(axis=1), length


def _likeliest(series: Floats, parts: Floats, least: Floats, bound: float) -> Level | None:
    """Return the part of a series whose change of level is the likeliest; None if it may be noise.

    `parts` has a row for each part: 1 within the part, else 0.  `least` is the least change, as a
    share, that counts.  `bound` is the likelihood ratio that a change must exceed.
    """
    changes = Changes(series, parts)
    ratios = np.where(np.abs(changes.shares) > least, changes.ratios, 0.0)
    best = int(np.argmax(ratios))
    if ratios[best] <= bound:
        return None
    inside, share = np.flatnonzero(parts[best]), float(changes.shares[best])
    begin, end = int(inside[0]), int(inside[-1]) + 1
    if begin == 0 and end > series.size / 2 and share > -1:
        # The part is more than half, so the rest at the end is what changed.
        begin, end, share = end, series.size, 1 / (1 + share) - 1
    return Level(share, begin, end, float(ratios[best]))


@lru_cache(maxsize=8)
def _parts(count: int) -> Floats:
    """Return all parts of the last two thirds of `count` values, a row for each part.

    A row has 1 for values within the part and 0 for the others of the two thirds.
    Neither a part nor the rest outside of it is too short.  The last fifth is always a part.
    """
    warm = count // _WARM_UP
    begins, ends = np.triu_indices(count - warm + 1, 1)
    least = max(min(_LEAST_PART, warm), count // _PARTS)
    lengths, last = ends - begins, ends == count - warm
    long = (lengths >= least) | (last & (lengths >= min(least, count // 5)))
    fitting = long & (lengths <= count - warm - least)
    at = np.arange(count - warm)
    parts: Floats = np.asarray(
        (at >= begins[fitting, None]) & (at < ends[fitting, None]), dtype=np.float64
    )
    return parts


def stalled(values: Sequence[float]) -> list[int]:
    """Return the numbers of the seconds, from 0, in which work stalled after it had begun.

    `values` has the amount of work in each second.  A second stalled if it has less than half of
    the median, and if its distance from the median is more than five standard deviations, estimated
    from the median distance.  If it has less than a tenth of the median, two standard deviations
    are enough: the noise of a series that is short or wanders is estimated badly.
    """
    series = _judgeable(values)
    usual = 0.0 if series is None else float(np.median(series))
    if series is None or usual <= 0:
        return []
    spread = float(np.median(np.abs(series - usual))) / _NORMAL_MAD
    begun = np.maximum.accumulate(series >= _STALL * usual)
    stopped = min(_STOPPED * usual, usual - _STOPPED_SURE * spread)
    least = min(_STALL * usual, max(stopped, usual - _STALL_SURE * spread))
    return np.flatnonzero(begun & (series < least)).tolist()


def wild(values: Sequence[float]) -> bool:
    """Return whether values are too noisy to be called steady, whatever their trend is.

    The noise is the standard deviation from a fitted line; more than 25 percent of the mean is too
    much.  There must be at least three values.
    """
    series = np.asarray(values, dtype=np.float64)
    if series.mean() <= 0:
        return False
    x = np.arange(series.size) - (series.size - 1) / 2
    rest = series - series.mean() - float(x @ series) / float(x @ x) * x
    return math.sqrt(float(rest @ rest) / (series.size - 2)) > WILD * float(series.mean())


# The boots of a comparison

_MOST_CORRELATION = 0.9
_LASTING = (0.5, 0.8)
"""Autocorrelations of units that follow each other, against which an order must protect."""

_DRIFT_SURE = NormalDist().inv_cdf(1 - 0.01 / 2)


def interleaved(base: Floats, other: Floats) -> float:
    """Return the share of all pairs of a `base` and an `other` unit in which the `other` is later.

    Both arrays have the times of units, or their places in an order.  With A for `base` and B for
    `other`, A B B A gives 0.5 and A A B B gives 1.  A pair of equal times counts as one half.
    """
    ordered = np.sort(base)
    below, up_to = (np.searchsorted(ordered, other, side) for side in ("left", "right"))
    return float((below + up_to).sum() / (2 * base.size * other.size))


def block_noise(base: Floats, other: Floats) -> float:
    """Return how much more noise that lasts makes two sides differ than noise within them implies.

    Both arrays have the places of units in their common order of time.  Noise that lasts resembles
    that of the place before by 0.5 or by 0.8 (autocorrelation of first order); the larger result
    counts.  The result is the variance of the difference of the sides' means, divided by what the
    variance within the sides makes one expect if units were independent.  It is 0.7 for
    A B B A A B B A, 1.5 for A A B B B B A A, and 0 if all places are equal.  A rank test at 5
    percent finds a false difference in more than 5 percent only if the result is above 1, about.
    """
    at, which = np.unique(np.concatenate((base, other)), return_inverse=True)
    size, free = (base.size, other.size), base.size + other.size - 2
    # The share that each place has of its side's units.
    shares = (
        np.bincount(which[: size[0]], minlength=at.size) / size[0],
        (np.bincount(which[size[0] :], minlength=at.size) / size[1]),
    )
    most = 0.0
    for alike in _LASTING:
        decays = alike ** np.diff(at, prepend=at[:1])
        within = sum(
            count * (1 - _variance(one, decays)) for count, one in zip(size, shares, strict=True)
        )
        if free < 1 or within <= 0:
            continue
        between = _variance(shares[1] - shares[0], decays)
        most = max(most, between * free / (within * (1 / size[0] + 1 / size[1])))
    return most


def _variance(weights: Floats, decays: Floats) -> float:
    """Return the variance of a weighted sum of values of variance 1 that resemble their neighbours.

    The values are in order of time.  `decays` is the correlation of each with the one before it;
    that of two values is the product of those between them.  The time grows with their number only.
    """
    total = before = 0.0
    for weight, decay in zip(weights.tolist(), decays.tolist(), strict=True):
        before *= decay
        total += weight * (weight + 2 * before)
        before += weight
    return total


def drift(sides: Sequence[Floats], places: Sequence[Floats]) -> float:
    """Return the drift: the change of the values' logarithm from one place to the next, or 0.

    `sides` has the values of the units (boots or runs) of each side.  `places` are the places of
    the sides' units in their common order of time.  The drift is the median of the slopes between
    any two units of the same side (Theil and Sen), so a difference between the sides is not a part
    of it.  It is 0 if Kendall's test within the sides does not show it at one percent, or if a
    value is not above zero.
    """
    slopes, agreed, variance = [], 0.0, 0.0
    for values, at in zip(sides, places, strict=True):
        count = values.size
        if (values <= 0).any():
            return 0.0
        one, two = np.triu_indices(count, 1)
        rise, run = np.log(values[two] / values[one]), at[two] - at[one]
        slopes += (rise[run != 0] / run[run != 0]).tolist()
        agreed += float(np.sum(np.sign(rise) * np.sign(run)))
        variance += count * (count - 1) * (2 * count + 5) / 18
    if not slopes or abs(agreed) <= _DRIFT_SURE * math.sqrt(variance):
        return 0.0
    return float(np.median(slopes))


def without_drift(
    raw: tuple[Floats, Floats], places: tuple[Floats, ...]
) -> tuple[tuple[Floats, Floats], float | None]:
    """Return the values of two sides without their drift over time, and the size of the drift.

    `raw` has one value for each unit of each side, and `places` its place in the order of time.
    The size is the share by which values moved from the first place to the last; None if no drift
    was shown, and the values are then unchanged.  Values that are NaN stay NaN.
    """
    known = [np.isfinite(values) for values in raw]
    slope = drift(
        [values[here] for values, here in zip(raw, known, strict=True)],
        [at[here] for at, here in zip(places, known, strict=True)],
    )
    if not slope:
        return raw, None
    all_places = np.concatenate(places)
    middle = float(all_places.mean())
    below, above = (
        values * np.exp(-slope * (at - middle)) for values, at in zip(raw, places, strict=True)
    )
    return (below, above), math.expm1(slope * float(np.ptp(all_places)))


def beyond_drift(sides: tuple[Floats, Floats], places: tuple[Floats, Floats], level: float) -> bool:
    """Return whether the sides differ by more than a common drift over time can explain.

    `sides` has one value for each unit of each side, and `places` its place in the order of time.
    `level` is the accepted chance of a false yes.  This is for sides that did not take turns.  A
    drift over time and a step between the sides are fitted together to the logarithms (to the
    values if not all are above zero).  The step must be larger than its standard error times
    Student's t, next to a straight drift and next to one that bends once (a parabola).  The error
    is widened for the autocorrelation of the units.
    """
    values, at = np.concatenate(sides), np.concatenate(places)
    side = np.repeat([0.0, 1.0], [part.size for part in sides])
    known = np.isfinite(values)
    values, at, side = values[known], at[known], side[known]
    if side.size == 0 or side.min() == side.max():
        return False
    if values.min() > 0:
        values = np.log(values)
    return all(_steps(values, at, side, degree, level) for degree in (1, 2))


def _steps(values: Floats, at: Floats, side: Floats, degree: int, level: float) -> bool:
    """Return whether the values step from side 0 to side 1, next to a drift over the places `at`.

    The drift is a polynomial of this degree.  `level` is the accepted chance of a false yes.
    """
    time = (at - at.mean()) / at.size
    curve = np.column_stack((side, *(time**power for power in range(degree + 1))))
    free = values.size - curve.shape[1]
    if free < 1:
        return False
    inverse = np.linalg.pinv(curve.T @ curve)
    fitted = inverse @ curve.T @ values
    rest = (values - curve @ fitted)[np.argsort(at, kind="stable")]
    noise = float(rest @ rest)
    wider = _wider(rest, lost=curve.shape[1])
    error = wider * math.sqrt(noise / free * float(inverse[0, 0]))
    sure = NormalDist().inv_cdf(1 - level / 2)
    return abs(float(fitted[0])) > _student(sure, free) * error


def _wider(rest: Floats, lost: int) -> float:
    """Return the factor by which standard errors grow if residuals resemble their neighbours.

    `rest` are the residuals, and `lost` is the number of fitted parameters.
    """
    alike = _resemblance(rest, lost)
    return math.sqrt((1 + alike) / (1 - alike))


def _resemblance(rest: Floats, lost: int) -> float:
    """Return the first-order autocorrelation of residuals, from 0 to 0.9.

    `lost` is the number of fitted parameters.  Each of them reduces the autocorrelation of the
    residuals (Marriott and Pope, 1954); this bias is corrected.
    """
    noise = float(rest @ rest)
    alike = float(rest[1:] @ rest[:-1]) / noise if noise else 0.0
    alike += (lost + (lost + 2) * max(0.0, alike)) / rest.size
    return min(_MOST_CORRELATION, max(0.0, alike))


def _student(sure: float, free: int) -> float:
    """Return Student's t from the normal quantile `sure`, by two terms of Cornish and Fisher.

    `free` are the degrees of freedom.
    """
    second = (5 * sure**5 + 16 * sure**3 + 3 * sure) / (96 * free**2)
    return sure + (sure**3 + sure) / (4 * free) + second
