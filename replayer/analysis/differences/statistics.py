"""Statistics for comparisons: medians, confidence intervals, a rank test, sample sizes.

A sample is a sequence of units (boots, runs or repeats).  A unit is a sequence of the values that
were measured in it.  It counts as one value, its median, however many values it has.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Sample = Sequence[Sequence[float]]
Floats = NDArray[np.float64]

ALPHA = 0.05
"""The allowed share of false alarms, over the family of all metrics."""
POWER = 0.8
"""The chance of a clear answer with a suggested number of units."""
MOST = 1000
"""The largest number of units that is ever suggested; more would be impractical."""
_LARGEST = 1e6
"""Larger ratios, such as those to almost zero, are reduced to this value."""
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf(1 - ALPHA / 2)
_EXACT_UP_TO = 40
"""Limit on the units of both sides together for exact tests, which count all orders of them."""
_EFFICIENCY = math.sqrt(math.pi / 3)
"""Standard error of a Hodges-Lehmann shift / that of a difference of means, for normal values."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of two samples, its 95 percent interval and the standard error of its logarithm.

    `low` and `high` are None if there are too few units for an interval.  `error` is infinite if a
    side has only one unit, as this shows nothing of the spread.
    """

    value: float
    low: float | None
    high: float | None
    error: float


@dataclass(frozen=True, slots=True)
class Shift:
    """The shift from a first sample to a second, in the unit of the values, with an interval.

    The shift is above zero if the second sample is larger.  `low` and `high` are the ends of its 95
    percent interval, None if there are too few units for one.  `error` is its standard error,
    infinite if a side has only one unit, as this shows nothing of the spread.
    """

    value: float
    low: float | None
    high: float | None
    error: float


@cache
def student_quantile(freedom: int, probability: float) -> float:
    """Return the quantile of Student's t at `probability`, which is above 0.5.

    `freedom` is the whole number of degrees of freedom.  The distribution has a closed form for
    these (Abramowitz and Stegun, 26.7.3 and 26.7.4), which is inverted by bisection.  scipy has
    such a function, but loading it takes longer than a replay.
    """
    least, most = 0.0, math.pi / 2
    while least < (middle := (least + most) / 2) < most:
        if _student_within(freedom, middle) < 2 * probability - 1:
            least = middle
        else:
            most = middle
    return math.sqrt(freedom) * math.tan(most)


def _student_within(freedom: int, angle: float) -> float:
    """Return the probability of |t| < sqrt(freedom) * tan(angle)."""
    odd = freedom % 2
    term = math.sin(angle) * (math.cos(angle) if odd else 1.0)
    series = term if freedom > 1 else 0.0
    for power in range(2 + odd, freedom, 2):
        term *= (power - 1) / power * math.cos(angle) ** 2
        series += term
    return (angle + series) * 2 / math.pi if odd else series


def medians(sample: Sample) -> Floats:
    """Return the median of every unit of a sample; a unit is a sequence of values."""
    # Nearly every unit is one run with one value: np.median would cost a hundred times as much.
    return np.array([unit[0] if len(unit) == 1 else np.median(unit) for unit in sample], np.float64)


def median(values: Sequence[float] | Floats) -> float:
    """Return the median of the values, as a float; NaN if one of them is NaN."""
    return float(np.median(values))


def ratio(base: Sequence[float] | Floats, other: Sequence[float] | Floats) -> Ratio | None:
    """Return the ratio of the sample `other` to the sample `base`, each with one value per unit.

    It is the median of the ratios of every unit of `other` to every unit of `base` (Hodges and
    Lehmann, 1963).  The interval contains each ratio by which `base` may be multiplied so that the
    rank test finds no difference at 5 percent.  So interval and test agree, except for tied values.
    Return None unless both medians are above zero and no value is negative.
    """
    below, above = np.asarray(base, np.float64), np.asarray(other, np.float64)
    if np.median(below) <= 0 or np.median(above) <= 0 or min(below.min(), above.min()) < 0:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        pairs = np.nan_to_num(above[None, :] / below[:, None], nan=1.0, posinf=_LARGEST)
    ratios = np.sort(np.minimum(pairs, _LARGEST), axis=None)
    inside = critical_rank(below.size, above.size)
    low, high = (ratios[inside - 1], ratios[-inside]) if inside else (None, None)
    return Ratio(
        float(np.median(ratios)),
        None if low is None else float(low),
        None if high is None else float(high),
        _error(_logarithms(below), _logarithms(above)),
    )


def shift(base: Sequence[float] | Floats, other: Sequence[float] | Floats) -> Shift:
    """Return the shift from the sample `base` to `other`, each with one value per unit.

    It is the median of the differences between every unit of `other` and every unit of `base`
    (Hodges and Lehmann, 1963).  The interval contains each shift that may be added to `base` so
    that the rank test finds no difference at 5 percent.  Values may be zero or below.
    """
    below, above = np.asarray(base, np.float64), np.asarray(other, np.float64)
    differences = np.sort(above[None, :] - below[:, None], axis=None)
    inside = critical_rank(below.size, above.size)
    low, high = (differences[inside - 1], differences[-inside]) if inside else (None, None)
    return Shift(
        float(np.median(differences)),
        None if low is None else float(low),
        None if high is None else float(high),
        _error(below, above),
    )


def _logarithms(values: Floats) -> Floats:
    logs: Floats = np.log(np.maximum(values, np.finfo(np.float64).tiny))
    return logs


def _error(base: Floats, other: Floats) -> float:
    """Return the standard error of the shift between two samples, from the spread within each.

    It is infinite if a sample has only one value.
    """
    free = base.size + other.size - 2
    if min(base.size, other.size) < 2:
        return math.inf
    squares = sum(float(np.sum((side - side.mean()) ** 2)) for side in (base, other))
    return _EFFICIENCY * math.sqrt(squares / free * (1 / base.size + 1 / other.size))


@cache
def critical_rank(base: int, other: int) -> int:
    """Return the place of the ends of the 95 percent interval of a ratio or shift of two samples.

    It counts from 1, from either end of the sorted ratios (or differences) of all pairs.  `base`
    and `other` are numbers of units.  Return 0 if these are too few for an interval.
    """
    if base + other > _EXACT_UP_TO:
        spread = math.sqrt(base * other * (base + other + 1) / 12)
        return max(0, math.floor(base * other / 2 - _Z * spread + 0.5))
    counts = _rank_sums(tuple(range(2, 2 * (base + other) + 1, 2)), base)
    lower = np.cumsum(counts)[base * (base + 1) :: 2] / counts.sum()
    return int(np.count_nonzero(2 * lower <= ALPHA))


@cache
def _rank_sums(doubled: tuple[int, ...], chosen: int) -> Floats:
    """Return for each sum the number of ways to choose `chosen` doubled ranks that have this sum.

    Ranks are doubled, so that the ranks of ties are whole numbers, too.  The index is the sum.
    """
    ways = np.zeros((chosen + 1, sum(doubled) + 1))
    ways[0, 0] = 1
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    chosen_ways: Floats = ways[chosen]
    return chosen_ways


def ranks(values: Floats) -> Floats:
    """Return the rank of every value, from 1; tied values get the mean of their ranks."""
    _, group, size = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(size)
    middle: Floats = (ends - (size - 1) / 2)[group]
    return middle


def rank_test(base: Sequence[float] | Floats, other: Sequence[float] | Floats) -> float:
    """Return the two-sided p value of the Mann-Whitney rank test of two samples.

    Each has one value per unit.  The p value is twice that of the nearer tail, and 1 if all values
    are equal.  For up to 40 values it is exact, also with ties.  For more values it comes from the
    normal distribution, corrected for ties and continuity.
    """
    pooled = np.concatenate([base, other]).astype(np.float64)
    if np.ptp(pooled) == 0:
        return 1.0
    own = ranks(pooled)
    count, mine = pooled.size, len(base)
    total = own[:mine].sum()
    if count <= _EXACT_UP_TO:
        ways = _rank_sums(tuple(np.sort(np.rint(2 * own)).astype(int).tolist()), mine)
        at = round(2 * total)
        nearer = min(ways[: at + 1].sum(), ways[at:].sum())
        return min(1.0, 2 * float(nearer / ways.sum()))
    variance = mine * (count - mine) / (count - 1) * float(np.var(own))
    off = abs(float(total) - mine * (count + 1) / 2) - 0.5
    return min(1.0, math.erfc(off / math.sqrt(2 * variance)))


def smallest_p(base: int, other: int) -> float:
    """Return the smallest two-sided p value that a rank test of these numbers of units can give."""
    return min(1.0, 2.0 / math.comb(base + other, base))


def can_show(base: int, other: int) -> bool:
    """Return whether a rank test of these numbers of units can show a difference of one metric."""
    return smallest_p(base, other) <= ALPHA


def units_to_show(share: float, family: int, least: int = 2) -> int:
    """Return the number of units per side with which one metric of a family can be shown to differ.

    A family is the metrics that are judged together.  `share` is the family's part of the 5
    percent, `family` its number of metrics.  At least `least` units are returned.
    """
    wanted = share * ALPHA / max(1, family)
    return next(n for n in range(max(2, least), MOST) if smallest_p(n, n) <= wanted)


def units_to_settle(
    ratio: Ratio, base: int, other: int, *, threshold: float, family: int, share: float = 1.0
) -> int | None:
    """Return the units that each side needs for a clear answer; None if they are more than 1000.

    `base` and `other` are the numbers of units that gave the ratio.  An answer is clear in two
    cases.  The sides differ, corrected for `family` metrics that have this share of the 5 percent.
    Or they are the same within the threshold.  The smaller of the two numbers is returned.  It
    gives a chance of 80 percent if the true ratio is the one that was found, and it is never less
    than the number that can show anything at all.
    """
    # Both ends of the interval must lie within the threshold, so there are two ways to miss it.
    alike = _Wanted(_Z + _NORMAL.inv_cdf((1 + POWER) / 2), _Z, units_to_show(1.0, 1))
    gap = abs(math.log(ratio.value))
    ways = (
        units_to_differ(gap, ratio.error, base, other, family=family, share=share),
        alike.units(math.log1p(threshold) - gap, ratio.error, base, other),
    )
    return min((way for way in ways if way is not None), default=None)


def units_to_differ(
    gap: float, error: float, base: int, other: int, *, family: int, share: float = 1.0
) -> int | None:
    """Return the units that each side needs to show a difference; None if they are more than 1000.

    `base` and `other` are the numbers of units that the sides have.  `gap` is the difference that
    was found, and `error` its standard error, in the same unit.  The difference is shown with a
    chance of 80 percent, corrected for `family` metrics that have this share of the 5 percent.
    """
    sure = _NORMAL.inv_cdf(1 - share * ALPHA / (2 * max(1, family)))
    wanted = _Wanted(sure + _NORMAL.inv_cdf(POWER), sure, units_to_show(share, family))
    return wanted.units(gap, error, base, other)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A requirement for a clear answer: how many standard errors a gap must be wide.

    It also has the least number of units per side that can show anything.
    """

    errors: float
    sure: float
    least: int

    def units(self, gap: float, error: float, base: int, other: int) -> int | None:
        """Return the number of units that each side needs to show a gap; None if it is above 1000.

        The gap must be at least `self.errors` standard errors wide.  `error` is the standard error
        that was found with `base` and `other` units.  A standard error shrinks with the square root
        of the number of units.  The result is never below `self.least`.  It is None as well if the
        gap is not above 0, or if `error` is not finite.
        """
        if gap <= 0 or not math.isfinite(error):
            return None
        now = 2 / (1 / base + 1 / other)
        # Few units estimate their own spread badly: Guenther's correction (1981).
        needed = math.ceil(now * (self.errors * error / gap) ** 2 + self.sure**2 / 4)
        return max(self.least, needed) if needed <= MOST else None
