"""What a comparison needs of statistics: medians, intervals, a rank test, sample sizes, steadiness.

A sample is a sequence of units (boots, runs or repeats); a unit is a sequence of the values that
were measured inside it and counts as one, by its median, however many values it has.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Sample = Sequence[Sequence[float]]
Floats = NDArray[np.float64]

ALPHA = 0.05
"""The share of false alarms that is allowed, over the family of all metrics."""
POWER = 0.8
"""The chance of a clear answer that a suggested number of runs aims at."""
MOST = 1000
"""More units than this are never suggested: nobody would run them."""
RESAMPLES = 4000
_INNER = 200
_LARGEST = 1e6
"""Larger ratios, as of something to almost nothing, are cut."""
_SEED = 20240229
_NORMAL = NormalDist()
_Z = 1.959964
"""The two-sided 95 percent point of the normal distribution."""
_EXACT_UP_TO = 40


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of two medians, its 95 percent interval and the standard error of its logarithm."""

    value: float
    low: float
    high: float
    error: float


def medians(sample: Sample) -> Floats:
    """Return the median of every unit."""
    # Nearly every unit is one run with one value: np.median would cost a hundred times as much.
    return np.array([unit[0] if len(unit) == 1 else np.median(unit) for unit in sample], np.float64)


def median(values: Sequence[float] | Floats) -> float:
    """Return the median."""
    return float(np.median(values))


def ratio(base: Sample, other: Sample, *, resamples: int = RESAMPLES) -> Ratio | None:
    """Return median(other) / median(base) with a bootstrap interval; None unless both are above 0.

    The bootstrap is hierarchical: units are drawn with replacement, and values within each unit
    drawn.  Its spread is too small by the root of (n - 1) / n for n units (Hesterberg, "What
    Teachers Should Know About the Bootstrap", 2015, section 4.2), so its percentiles are taken
    further out by that.  The draws are seeded: the same runs always give the same interval.
    """
    below, above = medians(base), medians(other)
    if np.median(below) <= 0 or np.median(above) <= 0:
        return None
    random = np.random.default_rng(_SEED)
    drawn = _draw(base, random, resamples), _draw(other, random, resamples)
    draws = np.minimum(drawn[1] / np.maximum(drawn[0], np.finfo(np.float64).tiny), _LARGEST)
    tail = _tail(min(len(base), len(other)))
    low, high = np.quantile(draws, [tail, 1 - tail])
    with np.errstate(divide="ignore"):
        logs = np.log(draws[draws > 0])
    error = float(np.std(logs)) if logs.size > 1 else math.inf
    return Ratio(float(np.median(above) / np.median(below)), float(low), float(high), error)


def _draw(sample: Sample, random: np.random.Generator, resamples: int) -> Floats:
    """Return one median per resample of the units and of the values within them."""
    units = random.integers(len(sample), size=(resamples, len(sample)))
    if all(len(unit) == 1 for unit in sample):
        flat: Floats = np.median(medians(sample)[units], axis=1)
        return flat
    inner = np.stack([_within(unit, random) for unit in sample])
    drawn = inner[units, random.integers(inner.shape[1], size=units.shape)]
    result: Floats = np.median(drawn, axis=1)
    return result


def _within(unit: Sequence[float], random: np.random.Generator) -> Floats:
    """Return medians of resamples of one unit's values; the outer bootstrap draws from them."""
    values = np.asarray(unit, dtype=np.float64)
    if values.size == 1:
        return np.repeat(values, _INNER)
    result: Floats = np.median(random.choice(values, size=(_INNER, values.size)), axis=1)
    return result


def _tail(units: int) -> float:
    """Return the share to leave out at each end for a 95 percent interval from so many units."""
    if units < 2:
        return 0.0
    wide = math.sqrt(units / (units - 1)) * _Z
    return math.erfc(wide / math.sqrt(2)) / 2


def rank_test(base: Sequence[float] | Floats, other: Sequence[float] | Floats) -> float:
    """Return the two-sided p of the Mann-Whitney test: exact for small samples, also with ties."""
    # It takes a second and 50 MB to load, which a run and its report have no use for.
    from scipy import stats  # noqa: PLC0415

    pooled = np.concatenate([base, other])
    if np.ptp(pooled) == 0:
        return 1.0
    ties = np.unique(pooled).size < pooled.size
    method: object = "exact" if pooled.size <= _EXACT_UP_TO else "asymptotic"
    if ties and method == "exact":
        # scipy's exact distribution knows no ties; below this size all orders can be tried.
        few = math.comb(pooled.size, len(base)) <= 20_000
        method = stats.PermutationMethod(n_resamples=20_000) if few else "asymptotic"
    return float(stats.mannwhitneyu(base, other, alternative="two-sided", method=method).pvalue)


def smallest_p(base: int, other: int) -> float:
    """Return the smallest two-sided p that a rank test of so many units could ever give."""
    return min(1.0, 2.0 / math.comb(base + other, base))


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values corrected for their number: Holm's step-down method (1979)."""
    order = sorted(range(len(ps)), key=lambda index: ps[index])
    corrected = [1.0] * len(ps)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, ps[index] * (len(ps) - rank)))
        corrected[index] = highest
    return corrected


def units_to_settle(
    found: Ratio, base: int, other: int, *, threshold: float, family: int
) -> int | None:
    """Return how many units each side needs for a clear answer; None if nobody would run them.

    Clear is either different, with the family's correction, or the same within the threshold,
    whichever comes first, with a chance of 80 percent if the ratio is the one found; the error
    shrinks with the root of the number of units.  Never fewer than could show anything at all.
    """
    least = next(n for n in range(2, MOST) if smallest_p(n, n) <= ALPHA / max(1, family))
    now = 2 / (1 / base + 1 / other)
    shift, room = abs(math.log(found.value)), math.log1p(threshold) - abs(math.log(found.value))
    reach = _NORMAL.inv_cdf(POWER)
    differs = _NORMAL.inv_cdf(1 - ALPHA / (2 * max(1, family))) + reach
    # Both ends of the interval have to lie within the threshold, so either may spoil it.
    alike = _NORMAL.inv_cdf(1 - ALPHA / 2) + _NORMAL.inv_cdf((1 + POWER) / 2)
    if not math.isfinite(found.error):
        return None
    ways = [(differs, shift), (alike, room)]
    needed = [now * (factor * found.error / gap) ** 2 for factor, gap in ways if gap > 0]
    best = max(least, math.ceil(min(needed))) if needed else None
    return best if best is not None and best <= MOST else None


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


def steady(
    values: Sequence[float],
    *,
    window: int = WINDOW,
    slope: float = SLOPE,
    deviation: float = DEVIATION,
) -> Steady:
    """Return where the values become steady, by the rule of fio's `steadystate`.

    A window of values is steady when its least-squares line moves less than `slope` of the mean
    over the window, and no value is further than `deviation` of the mean from it.  The steady part
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
    calm = (drift <= slope * np.abs(means)) & (furthest <= deviation * np.abs(means))
    if not calm.any():
        return Steady(None)
    return Steady(int(np.argmax(calm)), left=not bool(calm[-1]))
