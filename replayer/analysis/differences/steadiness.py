"""What moves while it is measured: repeats that warm up, seconds that drift, boots that do."""

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
    """Which part of a series is steady: `values[start:]`, or none of it if `start` is None."""

    start: int | None
    left: bool = False
    """True if the series was steady once and is not at its end."""


WINDOW = 5
"""Values in the window that must be steady."""
SLOPE = 0.05
"""The window's least-squares line may move by this share of the mean from first to last value."""
DEVIATION = 0.10
"""No value of the window may be further from its mean than this share of it."""
_SLOPE_ERRORS = 3.0
_DEVIATION_ERRORS = 3.5
_MOST_NOISE = 0.05
"""More noise than this is no excuse: what is as wild is not steady."""


def steady(
    values: Sequence[float],
    *,
    window: int = WINDOW,
    slope: float = SLOPE,
    deviation: float = DEVIATION,
) -> Steady:
    """Return where the values become steady, by the rule of fio's `steadystate`.

    A window of values is steady when its least-squares line moves less than `slope` of the mean
    over the window, and no value is further than `deviation` of the mean from it.  Both give way to
    what the noise from value to value, up to 5 percent, does to them by itself.  The steady part
    starts at the first value of the first steady window.  Fewer values than a window cannot tell:
    all of them count.
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
    """Return the noise from value to value as a share; a straight line has none."""
    middle = abs(float(np.median(series)))
    if not middle:
        return 0.0
    # Second differences are 0 on a line, and their variance is six times that of the values; the
    # median of a bell curve's size is 0.6745 of its standard deviation.
    return float(np.median(np.abs(np.diff(series, 2)))) / (0.6745 * math.sqrt(6)) / middle


# The seconds of one measurement


@dataclass(frozen=True, slots=True)
class Trend:
    """How far a series moved along its line, as a share of its mean, and over which values."""

    share: float
    begin: int
    end: int


WILD = 0.25
"""More noise than this from second to second is never steady, whether it moves or not."""
LEAST_SECONDS = 9
"""Fewer values than this cannot tell a trend from noise."""
_WARM_UP = 3
"""One part in so many, the first, is left out: it may warm up."""
_MOVED = 0.05
_SURE = NormalDist().inv_cdf(1 - 0.0093 / 2)
"""2.6 standard errors, which noise alone exceeds in 0.9 percent of lines."""
_CONSISTENT = 0.5
_UNSURE = 0.9
_FEW = 25.0
"""By how much more is asked of values that resemble each other, and of few of them: what is known
of their resemblance is then too little.  By simulation (tests/benchmarks/verdicts.py)."""
_MOST_CORRELATION = 0.9
_ALIKE = 0.8
"""By how much the seconds of a healthy window may resemble each other."""
_KNOWN_BADLY = 1.5
"""What few changes say of the noise is wide of it so far."""
_LEVEL = 0.10
"""A part of a series is on another level if it is off by this share of the rest."""
_LEVEL_SURE = 5.0
_WARM_UP_COSTS = 0.05
_LEAST_PART = 3
"""Values in a part that has a level of its own, and of a series that is cut into as many as ..."""
_PARTS = 12
_MOST_POINTS = 120
"""Seconds are taken together where there are more of them: all parts are looked at."""
_ROUNDS = 3
_STALL = 0.5
_STALL_SURE = 5.0
_BEGUN = 0.75
_NORMAL_MAD = 0.6745
"""The median size of a bell curve in its standard deviation."""


@dataclass(frozen=True, slots=True)
class Level:
    """By how much a part of a series lies above the rest, as a share of it, and which part."""

    share: float
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Unsteady:
    """What was seen of a series that does not hold still, and the rule that says so."""

    words: str
    """To follow "was"."""
    rule: str


def unsteady(values: Sequence[float]) -> Unsteady | None:
    """Return why the values of each second are not steady, None if they are as far as can be told.

    Noise of up to 5 percent of the mean, of which each second may resemble the one before it by
    0.8, is called unsteady in one of twenty windows at most (tests/benchmarks/verdicts.py).
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
    """Return by how much the values moved from one end to the other, None if it may be noise.

    The first third may warm up.  A line through the rest has moved if it did so by more than 5
    percent and by more than 2.6 standard errors.  So has a line through all the values, which sees
    more, if the rest moved at least half as fast.  The standard errors are those of noise of which
    each second may resemble the one before it (autoregressive, of first order), by what the line
    leaves that shows more of it; and 2.6 is widened for few values as Student's t is, and for not
    knowing how far they resemble each other.
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
    """Return the part of a series that lies on another level than the rest, None if none does.

    Of all parts of the last two thirds that one is taken which lies furthest off, in standard
    errors (the epidemic change of Levin and Kline, 1985; a part that reaches the end is a plain
    CUSUM).  It must be 10 percent off and 5 standard errors, more where the seconds resemble each
    other: the largest of so many parts is so by chance.  The first third may warm up, unless it
    draws the mean down, or up, by more than 5 percent.
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
    """Return the beginning that draws the mean of all away from that of the rest, if one does."""
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
    """Return the part of a series that is furthest off, None if it may be noise."""
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
        # What came last is the lesser part: it is what changed.
        return Level(usual / (usual + float(off[best])) - 1, end, count)
    return Level(float(off[best]) / usual, begin, end)


@cache
def _parts(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where all parts of a series begin and end that are long enough, and leave enough."""
    begins, ends = np.triu_indices(count + 1, 1)
    least = max(_LEAST_PART, count // _PARTS)
    fitting = (ends - begins >= least) & (ends - begins <= count - least)
    return begins[fitting], ends[fitting]


def _of_mean(lengths: Floats, alike: float) -> Floats:
    """Return the variance of the mean of so many values, in that of one, if they are so alike."""
    sums = 2 * alike * (1 - alike**lengths) / (lengths * (1 - alike) ** 2)
    variance: Floats = ((1 + alike) / (1 - alike) - sums) / lengths
    return variance


def stalled(values: Sequence[float]) -> list[int]:
    """Return the seconds in which next to nothing was done, from 0, once it had begun.

    A second has stalled in which less was done than half of what is usual, and which is further
    from it than five times the usual distance.
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
    """Tell whether values of any trend are too noisy to be called steady."""
    line = _line(np.asarray(values, dtype=np.float64)) if np.mean(values) > 0 else None
    return line is not None and line.noise > WILD


@dataclass(frozen=True, slots=True)
class _Line:
    share: float
    error: float
    """Of the share, were no value like the one before it."""
    noise: float
    alike: float
    free: int

    most: float
    """The same error, were each as like the one before it as it ever is, by how the values change
    from one to the next: it does not grow with how far they are from the line."""

    def moved(self, alike: float) -> bool:
        unknown = (1 + _UNSURE * alike) * (1 + _FEW / self.free**2)
        error = min(unknown * math.sqrt((1 + alike) / (1 - alike)) * self.error, self.most)
        return abs(self.share) > max(_MOVED, _student(_SURE, self.free) * error)


def _line(series: Floats) -> _Line:
    """Return how far a least-squares line moves from the first value to the last, and its error."""
    x = np.arange(series.size) - (series.size - 1) / 2
    mean, squares, free = float(series.mean()), float(x @ x), series.size - 2
    slope = float(x @ series) / squares
    rest = series - mean - slope * x
    noise = float(rest @ rest)
    reach = (series.size - 1) / mean
    error = math.sqrt(noise / free / squares) * reach
    alike = _resemblance(rest, lost=2)
    changes = np.diff(series, 2)
    # The variance of second differences in that of the values, for noise of first order.
    most = float(changes @ changes) / changes.size / (6 - 8 * _ALIKE + 2 * _ALIKE**2)
    widest = _KNOWN_BADLY * math.sqrt(most / squares * (1 + _ALIKE) / (1 - _ALIKE)) * reach
    return _Line(slope * reach, error, math.sqrt(noise / free) / mean, alike, free, widest)


def _wider(rest: Floats, lost: int) -> float:
    """Return by how much errors widen as each value resembles the one before it."""
    alike = _resemblance(rest, lost)
    return math.sqrt((1 + alike) / (1 - alike))


def _resemblance(rest: Floats, lost: int) -> float:
    """Return by how much each value that is left resembles the one before it, from 0 to 0.9.

    `lost` is how many numbers were fitted: each makes what is left resemble itself less (Marriott
    and Pope, 1954), which is given back.
    """
    noise = float(rest @ rest)
    alike = float(rest[1:] @ rest[:-1]) / noise if noise else 0.0
    alike += (lost + (lost + 2) * max(0.0, alike)) / rest.size
    return min(_MOST_CORRELATION, max(0.0, alike))


def _student(sure: float, free: int) -> float:
    """Return Student's t from the normal quantile, by two terms beyond it (Cornish and Fisher)."""
    second = (5 * sure**5 + 16 * sure**3 + 3 * sure) / (96 * free**2)
    return sure + (sure**3 + sure) / (4 * free) + second


# The boots of a comparison

_DRIFT_SURE = NormalDist().inv_cdf(1 - 0.01 / 2)


def interleaved(base: Floats, other: Floats) -> float:
    """Return in which share of all pairs the unit of `other` came after that of `base`.

    The values are times, or places in an order.  A B B A gives a half, A A B B one.
    """
    later = (other[None, :] > base[:, None]).mean() + (other[None, :] == base[:, None]).mean() / 2
    return float(later)


def drift(sides: Sequence[Floats], places: Sequence[Floats]) -> float:
    """Return by how much the logarithm of the values moves from one place to the next, or 0.

    `places` are those of the sides' units in the order in which both were measured.  The drift is
    the median of the slopes between any two units of one side (Theil and Sen), so that what the
    sides differ by is no part of it; it is 0 unless Kendall's test within the sides shows it at one
    percent.
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
    """Return the values with their drift over time taken out, and how large it was, if it was."""
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
    """Tell whether one side lies beyond what a drift of both could make of it, at such a level.

    For sides that were measured one after the other: a line over time, of one slope, and a step
    between the sides are fitted together to the logarithms (to the values, where not all are above
    zero), and the step must be more than Student's t of its standard error.  As in `trend`, that is
    widened by how much each unit resembles the one before it.
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
