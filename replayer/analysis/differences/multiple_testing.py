"""Correction of p values for many metrics that are judged at once.

It is Westfall and Young's step-down method ("Resampling-Based Multiple Testing", 1993, algorithm
2.8).  The units are assigned to the two sides again and again at random, for all metrics together.
A metric is compared with the largest difference that any of the metrics shows by chance.  So
metrics that move together, or repeat each other, cost as much as one metric.  The method is never
less sharp than Holm's, which treats all metrics as independent.

Half of the 5 percent is for the leading metrics, and half for the others.  If all metrics of one
half were shown to differ, its share passes to the other half.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from replayer.analysis.differences import statistics
from replayer.analysis.differences.statistics import ranks

Floats = NDArray[np.float64]

LEADING_SHARE = 0.5
"""Share of the allowed false alarms for the leading metrics, if there are other metrics."""
FALSE_LIKELY = 0.2
"""Share of the metrics called likely that may be so by chance."""
_ALL_UP_TO = 20_000
"""Number of ways to assign units to sides up to which all are tried; with more, random ones."""
_DRAWN = 9_999
_SEED = 20240229
_EQUAL = 1e-9


def shares(leading: int, others: int) -> tuple[float, float]:
    """Return the parts of the 5 percent for the leading metrics and for the others.

    The arguments are numbers of metrics.  If one of them is 0, both parts are 1.
    """
    if not leading or not others:
        return 1.0, 1.0
    return LEADING_SHARE, 1 - LEADING_SHARE


def units_to_show(leading: int, others: int) -> tuple[int, int]:
    """Return the units per side with which one metric alone can be shown to differ.

    The first number is for a leading metric, the second for another one.  The arguments are numbers
    of metrics.
    """
    counts = leading, others
    first, second = map(statistics.units_to_show, shares(*counts), counts)
    return first, second


def likely_up_to(ps: Sequence[float]) -> float:
    """Return the largest uncorrected p value at which a metric is likely to differ; 0 if none is.

    It is Benjamini and Hochberg's bound (1995): of the metrics that are called likely, on average
    at most one in five does not differ.  If nothing differs, at most one comparison in five calls
    something likely.
    """
    ranked = sorted(ps)
    bounds = [p for rank, p in enumerate(ranked, start=1) if p <= FALSE_LIKELY * rank / len(ranked)]
    return max(bounds, default=0.0)


def corrected(values: Floats, base: int, leading: Sequence[bool]) -> list[float]:
    """Return the p value of each metric, corrected for all of them.

    `values` has the shape metrics x units, NaN if a unit has no value; the first `base` columns are
    the base side.  `leading` has one element for each metric.
    """
    if not len(values):
        return []
    chances = _chances(values, base)
    first = np.array(leading, dtype=bool)
    plain = np.ones(len(values))
    for part in (first, ~first):
        if part.any():
            plain[part] = _step_down(chances[:, part])
    return [float(p) for p in _passed_on(plain, first)]


def _passed_on(plain: Floats, first: NDArray[np.bool_]) -> Floats:
    """Return p values that are corrected over both halves: the leading metrics and the others.

    `plain` has p values that are corrected within their half only.  They are divided by the half's
    share of the 5 percent.  If all metrics of the other half differ, its share is added.  `first`
    marks the leading metrics.
    """
    share = dict(zip((True, False), shares(int(first.sum()), int((~first).sum())), strict=True))
    result = np.ones(len(plain))
    for part in (True, False):
        mine = first == part
        own = plain[mine] / share[part]
        if not (~mine).any():
            result[mine] = own
            continue
        whole = max(plain[~mine]) / share[not part]
        result[mine] = np.minimum(own, np.maximum(plain[mine], whole))
    return np.minimum(1.0, result)


def _chances(values: Floats, base: int) -> Floats:
    """Return how far the sides are apart in each metric, as an array of draws x metrics.

    The distance is that of sums of ranks, in standard deviations.  A draw assigns the units to the
    sides at random; the first row is the real assignment.  `values` is an array of metrics x units,
    and `base` is the number of units on the base side.
    """
    present = np.isfinite(values)
    centred = np.zeros_like(values)
    for row, known in enumerate(present):
        own = ranks(values[row, known])
        centred[row, known] = own - own.mean()
    sides = _sides(values.shape[1], base)
    sums, mine = sides @ centred.T, sides @ present.T.astype(np.float64)
    count = present.sum(axis=1)
    # The variance of a sum of `mine` ranks, drawn without replacement.
    variance = mine * (count - mine) / np.maximum(count - 1, 1) * (centred**2).sum(axis=1) / count
    apart: Floats = np.abs(sums) / np.sqrt(np.maximum(variance, _EQUAL))
    return apart


@cache
def _sides(units: int, base: int) -> Floats:
    """Return an array of draws x units: 1 if a unit is on the base side, else 0.

    A draw assigns the units to the sides at random, `base` of them to the base side.  The first row
    is the real assignment.
    """
    if math.comb(units, base) <= _ALL_UP_TO:
        # Combinations begin with the first `base` units, which is the real assignment.
        chosen = np.array(list(combinations(range(units), base)))
    else:
        random = np.random.default_rng(_SEED)
        drawn = random.random((_DRAWN, units), dtype=np.float32).argpartition(base, axis=1)
        chosen = np.vstack([np.arange(base), drawn[:, :base]])
    sides = np.zeros((len(chosen), units))
    np.put_along_axis(sides, chosen, 1.0, axis=1)
    return sides


def _step_down(chances: Floats) -> Floats:
    """Return p values of metrics, corrected for each other, step by step.

    `chances` is an array of draws x metrics: how far the sides are apart.  The first row is for the
    real assignment of units to sides, the others for random ones.  The metric with the largest
    difference is compared with the largest that any metric shows by chance.  The second one is
    compared with the largest of all metrics except the first, and so on.
    """
    order = np.argsort(-chances[0], kind="stable")
    # For each metric: the largest difference by chance, of itself and of all metrics after it.
    largest = np.maximum.accumulate(chances[:, order[::-1]], axis=1)[:, ::-1]
    reached = (largest >= largest[0] - _EQUAL).mean(axis=0)
    result = np.empty(len(order))
    result[order] = np.maximum.accumulate(reached)
    return result
