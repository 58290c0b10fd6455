"""Tests of steadiness: repeats that warm up, seconds of a window that drift, boots that drift."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The repeats of a step


@dataclass(frozen=True, slots=True)
class Steady:
    """The steady part of a series: `values[start:]`, or nothing if `start` is None."""

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
    part starts at the first value of the first steady window.  If there are fewer values than in a
    window, nothing can be judged, and all of them count.
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
    """Return the noise from value to value as a share of the median; a straight line has none."""
    middle = abs(float(np.median(series)))
    if not middle:
        return 0.0
    # Second differences are 0 on a line, and their variance is six times that of the values.  The
    # median of the absolute values of a normal distribution is 0.6745 of its standard deviation.
    return float(np.median(np.abs(np.diff(series, 2)))) / (0.6745 * math.sqrt(6)) / middle


# The seconds of one measurement


@dataclass(frozen=True, slots=True)
class Trend:
    """The movement of a series along its line, as a share of its mean, over [begin, end)."""

    share: float
    begin: int
    end: int


WILD = 0.25
"""With more noise than this from second to second, a series is never steady, even without trend."""
LEAST_SECONDS = 9
"""With fewer values than this, a trend cannot be distinguished from noise."""
_WARM_UP = 3
"""The first of this many equal parts is left out, as it may be warming up."""
_MOVED = 0.05
_SURE = NormalDist().inv_cdf(1 - 0.0093 / 2)
"""2.6 standard errors, which noise alone exceeds in 0.9 percent of lines."""
_CONSISTENT = 0.5
_UNSURE = 0.9
_FEW = 25.0
"""Factors that widen the error for autocorrelated values (_UNSURE) and for few values (_FEW).

Their autocorrelation is then badly known.  Found by simulation (tests/benchmarks/verdicts.py)."""
_MOST_CORRELATION = 0.9
_ALIKE = 0.8
"""The largest autocorrelation from second to second of a healthy window."""
_KNOWN_BADLY = 1.5
"""Factor by which an estimate of the noise from few changes may be wrong."""
_LEVEL = 0.10
"""A part of a series has another level if it differs by more than this share of the rest."""
_LEVEL_SURE = 5.0
_WARM_UP_COSTS = 0.05
_LEAST_PART = 3
"""Least number of values in a part with its own level; for a long series, see _PARTS."""
_PARTS = 12
"""A part with its own level must have at least 1 / _PARTS of the values of its series."""
_MOST_POINTS = 120
"""More seconds than this are averaged in groups, because all possible parts are tested."""
_ROUNDS = 3
_STALL = 0.5
_STALL_SURE = 5.0
_BEGUN = 0.75
_NORMAL_MAD = 0.6745
"""Median of absolute deviations / standard deviation, for a normal distribution."""


@dataclass(frozen=True, slots=True)
class Level:
    """A part of a series, [begin, end), and its distance above the rest, as a share of the rest."""

    share: float
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Unsteady:
    """The reason why a series is not steady, and the rule that shows it."""

    words: str
    """The end of a sentence, to follow "was"."""
    rule: str


def unsteady(values: Sequence[float]) -> Unsteady | None:
    """Return why the values of each second are not steady; None if no test shows that.

    Noise alone is called unsteady in at most one of twenty windows.  This holds for noise up to 5
    percent of the mean and an autocorrelation up to 0.8 (tests/benchmarks/verdicts.py).
    """
    moved = trend(values)
    if moved is not None:
        return Unsteady(
            f"drifting by {moved.share:+.0%} from second {moved.begin} to {moved.end}",
            f"a line moved by more than {_MOVED:.0%} and {_SURE:.1f} standard errors",
        )
    other = level(values)
    if other is not None:
        return Unsteady(
            f"{abs(other.share):.0%} {'lower' if other.share < 0 else 'higher'} from second "
            f"{other.begin} to {other.end} than else",
            f"a level {_LEVEL:.0%} and {_LEVEL_SURE:.1f} standard errors off",
        )
    still = stalled(values)
    if still:
        more = f" and {len(still) - 1} more" if len(still) > 1 else ""
        return Unsteady(
            f"stalled in second {still[0] + 1}{more}",
            f"a second with less than {_STALL:.0%} of the usual",
        )
    if wild(values):
        return Unsteady("never steady", f"over {WILD:.0%} of noise from second to second")
    return None


def trend(values: Sequence[float]) -> Trend | None:
    """Return the movement of the values from one end to the other; None if it may be noise.

    The first third may be warming up, so a line is fitted to the rest.  The values have moved if
    the line moves by more than 5 percent, and by more than 2.6 standard errors.  A line through all
    values is more sensitive.  It counts, too, if the rest moved at least half as fast.

    The standard errors are those of autoregressive noise of first order: each second may resemble
    the one before it.  Of the two lines' residuals, those with the larger autocorrelation are used.
    The 2.6 is widened for few values as in Student's t, and because the autocorrelation is badly
    known.
    """
    series = np.asarray(values, dtype=np.float64)
    if series.size < LEAST_SECONDS or series.mean() <= 0:
        return None
    first = series.size // _WARM_UP
    rest, whole = _line(series[first:]), _line(series)
    alike = max(rest.alike, whole.alike)
    if rest.moved(alike):
        return Trend(rest.share, first, series.size)
    speed = rest.share / (series.size - first - 1) * (series.size - 1)
    if whole.moved(alike) and speed / whole.share >= _CONSISTENT:
        return Trend(whole.share, 0, series.size)
    return None


def level(values: Sequence[float]) -> Level | None:
    """Return the part of a series that has another level than the rest; None if there is none.

    Of all parts of the last two thirds, the one that is furthest off in standard errors is tested
    (the epidemic change of Levin and Kline, 1985; for a part that reaches the end it is a plain
    CUSUM).  It must be off by 10 percent and by 5 standard errors.  That many are needed because
    the largest of many parts is far off by chance; autocorrelated seconds need more.
    The first third may be warming up, unless it moves the mean by more than 5 percent.
    """
    series = np.asarray(values, dtype=np.float64)
    if series.size < LEAST_SECONDS or series.mean() <= 0:
        return None
    first = series.size // _WARM_UP
    length = -(-series.size // _MOST_POINTS)
    whole = series[: series.size - series.size % length].reshape(-1, length).mean(axis=1)
    warm = whole.size // _WARM_UP
    found = _furthest(whole[warm:])
    if found is not None:
        at_end = found.end == whole.size - warm
        begin, end = ((warm + at) * length for at in (found.begin, found.end))
        return Level(found.share, begin, series.size if at_end else end)
    return _warm_up(series, first)


def _warm_up(series: Floats, first: int) -> Level | None:
    """Return the beginning of a series if it moves the mean of all away from that of the rest.

    `first` is the number of values that may be such a beginning.  None if it may be noise.
    """
    rest = series[first:]
    usual = float(rest.mean())
    lengths = np.arange(1.0, first + 1)
    sums = np.cumsum(series[:first] - usual)
    furthest = int(np.argmax(np.abs(sums)))
    alike = _resemblance(rest - usual, lost=1)
    sizes = np.array([lengths[furthest], rest.size])
    error = float(rest.std()) * math.sqrt(float(_of_mean(sizes, alike).sum()))
    off = float(sums[furthest] / lengths[furthest])
    costs = abs(float(sums[furthest])) / series.size
    if usual <= 0 or costs <= _WARM_UP_COSTS * usual or abs(off) <= _LEVEL_SURE * error:
        return None
    return Level(off / usual, 0, furthest + 1)


def _furthest(series: Floats) -> Level | None:
    """Return the part of a series that is furthest off the rest; None if it may be noise."""
    count = series.size
    begins, ends = _parts(count)
    lengths = (ends - begins).astype(np.float64)
    sums = np.concatenate(([0.0], np.cumsum(series - series.mean())))
    inside = sums[ends] - sums[begins]
    off = inside / lengths + inside / (count - lengths)
    alike, rest, best = 0.0, series - series.mean(), 0
    for _ in range(_ROUNDS):
        errors = np.sqrt(_of_mean(lengths, alike) + _of_mean(count - lengths, alike))
        best = int(np.argmax(np.abs(off) / errors))
        rest = series.copy()
        rest[begins[best] : ends[best]] -= off[best]
        rest -= rest.mean()
        alike = _resemblance(rest, lost=2)
    free = count * (1 - float(_of_mean(np.array(float(count)), alike))) - 1
    noise = math.sqrt(float(rest @ rest) / max(1.0, free))
    usual = float(series.mean() - inside[best] / (count - lengths[best]))
    enough = _LEVEL_SURE * (1 + _UNSURE * alike) * float(errors[best]) * noise
    if usual <= 0 or abs(off[best]) <= max(enough, _LEVEL * usual):
        return None
    begin, end = int(begins[best]), int(ends[best])
    if begin == 0 and end > count / 2:
        # The part is more than half, so the rest at the end is what changed.
        return Level(usual / (usual + float(off[best])) - 1, end, count)
    return Level(float(off[best]) / usual, begin, end)


@cache
def _parts(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return starts and ends of all parts of a series that are neither too short nor too long.

    `count` is the length of the series; the rest outside of a part must be long enough, too.
    """
    begins, ends = np.triu_indices(count + 1, 1)
    least = max(_LEAST_PART, count // _PARTS)
    fitting = (ends - begins >= least) & (ends - begins <= count - least)
    return begins[fitting], ends[fitting]


def _of_mean(lengths: Floats, alike: float) -> Floats:
    """Return the variance of the mean of `lengths` values, divided by the variance of one value.

    `alike` is their autocorrelation.
    """
    sums = 2 * alike * (1 - alike**lengths) / (lengths * (1 - alike) ** 2)
    variance: Floats = ((1 + alike) / (1 - alike) - sums) / lengths
    return variance


def stalled(values: Sequence[float]) -> list[int]:
    """Return the numbers of the seconds, from 0, in which work stalled after it had begun.

    A second stalled if it has less than half of the median, and if its distance from the median is
    more than five standard deviations, estimated from the median distance.
    """
    series = np.asarray(values, dtype=np.float64)
    usual = float(np.median(series)) if series.size >= LEAST_SECONDS else 0.0
    if usual <= 0:
        return []
    spread = float(np.median(np.abs(series - usual))) / _NORMAL_MAD
    begun = np.maximum.accumulate(series >= _BEGUN * usual)
    least = min(_STALL * usual, usual - _STALL_SURE * spread)
    return np.flatnonzero(begun & (series < least)).tolist()


def wild(values: Sequence[float]) -> bool:
    """Return whether values are too noisy to be called steady, whatever their trend is."""
    line = _line(np.asarray(values, dtype=np.float64)) if np.mean(values) > 0 else None
    return line is not None and line.noise > WILD


@dataclass(frozen=True, slots=True)
class _Line:
    """A least-squares line through a series: its movement, as a share of the mean, and errors."""

    share: float
    error: float
    """Standard error of the share, if the values had no autocorrelation."""
    noise: float
    alike: float
    free: int

    most: float
    """An upper bound of the error: the one for the largest autocorrelation, _ALIKE.

    It is estimated from the changes between values, so it does not grow with their distance from
    the line."""

    def moved(self, alike: float) -> bool:
        """Return whether the line moves by more than its noise, of this autocorrelation, can."""
        unknown = (1 + _UNSURE * alike) * (1 + _FEW / self.free**2)
        error = min(unknown * math.sqrt((1 + alike) / (1 - alike)) * self.error, self.most)
        return abs(self.share) > max(_MOVED, _student(_SURE, self.free) * error)


def _line(series: Floats) -> _Line:
    """Return the movement of a least-squares line from the first value to the last, with errors."""
    x = np.arange(series.size) - (series.size - 1) / 2
    mean, squares, free = float(series.mean()), float(x @ x), series.size - 2
    slope = float(x @ series) / squares
    rest = series - mean - slope * x
    noise = float(rest @ rest)
    reach = (series.size - 1) / mean
    error = math.sqrt(noise / free / squares) * reach
    alike = _resemblance(rest, lost=2)
    changes = np.diff(series, 2)
    # The last factor: variance of second differences / variance of values, for first-order noise.
    most = float(changes @ changes) / changes.size / (6 - 8 * _ALIKE + 2 * _ALIKE**2)
    widest = _KNOWN_BADLY * math.sqrt(most / squares * (1 + _ALIKE) / (1 - _ALIKE)) * reach
    return _Line(slope * reach, error, math.sqrt(noise / free) / mean, alike, free, widest)


def _wider(rest: Floats, lost: int) -> float:
    """Return the factor by which autocorrelation of the residuals widens errors."""
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


# The boots of a comparison

_DRIFT_SURE = NormalDist().inv_cdf(1 - 0.01 / 2)


def interleaved(base: Floats, other: Floats) -> float:
    """Return the share of all pairs in which the unit of `other` came after that of `base`.

    The values are times, or places in an order.  A B B A gives 0.5, A A B B gives 1.
    """
    later = (other[None, :] > base[:, None]).mean() + (other[None, :] == base[:, None]).mean() / 2
    return float(later)


def drift(sides: Sequence[Floats], places: Sequence[Floats]) -> float:
    """Return the drift: the change of the values' logarithm from one place to the next, or 0.

    `places` are the places of the sides' units in their common order of time.  The drift is the
    median of the slopes between any two units of the same side (Theil and Sen), so a difference
    between the sides is no part of it.  It is 0 if Kendall's test within the sides does not show it
    at one percent, or if a value is not above zero.
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
    """Return the values without their drift over time, and the size of the drift.

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
    """Return whether the sides differ by more than a common drift can explain, at a level.

    This is for sides that were measured one after the other.  A line over time with one slope and a
    step between the sides are fitted together to the logarithms (to the values if not all are above
    zero).  The step must be larger than its standard error times Student's t.  As in `trend`, the
    error is widened for the autocorrelation of the units.
    """
    values, at = np.concatenate(sides), np.concatenate(places)
    side = np.repeat([0.0, 1.0], [part.size for part in sides])
    known = np.isfinite(values)
    values, at, side = values[known], at[known], side[known]
    free = values.size - 3
    if free < 1 or side.min() == side.max():
        return False
    if values.min() > 0:
        values = np.log(values)
    line = np.column_stack((np.ones_like(at), at - at.mean(), side))
    inverse = np.linalg.pinv(line.T @ line)
    fitted = inverse @ line.T @ values
    rest = (values - line @ fitted)[np.argsort(at, kind="stable")]
    noise = float(rest @ rest)
    wider = _wider(rest, lost=line.shape[1])
    error = wider * math.sqrt(noise / free * float(inverse[2, 2]))
    sure = NormalDist().inv_cdf(1 - level / 2)
    return abs(float(fitted[2])) > _student(sure, free) * error
