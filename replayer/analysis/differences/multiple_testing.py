"""Many metrics judged at once: p values corrected for their number, the leading metrics first.

The correction is Westfall and Young's step-down one ("Resampling-Based Multiple Testing", 1993,
algorithm 2.8): the sides of all units are drawn anew, for all metrics together, and a metric is
held against the largest difference that any of them shows by chance.  Metrics that move together,
or say the same in other words, then cost as much as one, and it is never less sharp than Holm's
method, which takes all metrics for strangers.

Half of the 5 percent is for the leading metrics and half for the rest; a half whose metrics were
all shown to differ passes to the other.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from replayer.analysis.differences.statistics import ranks

Floats = NDArray[np.float64]

LEADING_SHARE = 0.5
"""The part of the allowed false alarms that the leading metrics have, if there are others."""
FALSE_LIKELY = 0.2
"""The share of what is called likely that may be chance."""
_ALL_UP_TO = 20_000
"""Ways to share the units between two sides, up to which each is tried; else some are drawn."""
_DRAWN = 9_999
_SEED = 20240229
_EQUAL = 1e-9


def shares(leading: int, others: int) -> tuple[float, float]:
    """Return which part of the 5 percent the leading metrics have, and which the others."""
    if not leading or not others:
        return 1.0, 1.0
    return LEADING_SHARE, 1 - LEADING_SHARE


def likely_up_to(ps: Sequence[float]) -> float:
    """Return up to which own p a metric of a family is likely to differ, 0 where none is.

    It is Benjamini and Hochberg's bound (1995) on the share of those called likely that are not:
    one in five at most, on average.  Where nothing differs, one comparison in five calls something
    likely, at most.
    """
    ranked = sorted(ps)
    bounds = [p for rank, p in enumerate(ranked, start=1) if p <= FALSE_LIKELY * rank / len(ranked)]
    return max(bounds, default=0.0)


def corrected(values: Floats, base: int, leading: Sequence[bool]) -> list[float]:
    """Return the p of each metric, corrected for all of them.

    `values` are metrics x units, not a number where a unit has none; the first `base` columns are
    one side's.
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
    """Return p values that respect the halves: each part's own are as if it were alone."""
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
    """Return draws x metrics: how many standard deviations the sides lie apart.

    The first row is what was measured.
    """
    present = np.isfinite(values)
    centred = np.zeros_like(values)
    for row, known in enumerate(present):
        own = ranks(values[row, known])
        centred[row, known] = own - own.mean()
    sides = _sides(values.shape[1], base)
    sums, mine = sides @ centred.T, sides @ present.T.astype(np.float64)
    count = present.sum(axis=1)
    # The variance of a sum of so many ranks, drawn without replacement.
    variance = mine * (count - mine) / np.maximum(count - 1, 1) * (centred**2).sum(axis=1) / count
    apart: Floats = np.abs(sums) / np.sqrt(np.maximum(variance, _EQUAL))
    return apart


@cache
def _sides(units: int, base: int) -> Floats:
    """Return draws x units: 1 where a unit is on the base's side; the first row is as measured."""
    if math.comb(units, base) <= _ALL_UP_TO:
        # Combinations begin with the first `base` units, which is how it was measured.
        chosen = np.array(list(combinations(range(units), base)))
    else:
        random = np.random.default_rng(_SEED)
        drawn = random.random((_DRAWN, units), dtype=np.float32).argpartition(base, axis=1)
        chosen = np.vstack([np.arange(base), drawn[:, :base]])
    sides = np.zeros((len(chosen), units))
    np.put_along_axis(sides, chosen, 1.0, axis=1)
    return sides


def _step_down(chances: Floats) -> Floats:
    """Return p values corrected for each other: the largest difference against all, and so on."""
    order = np.argsort(-chances[0], kind="stable")
    # From the last to the first: the largest of a metric and of all that lie less far apart.
    largest = np.maximum.accumulate(chances[:, order[::-1]], axis=1)[:, ::-1]
    reached = (largest >= largest[0] - _EQUAL).mean(axis=0)
    result = np.empty(len(order))
    result[order] = np.maximum.accumulate(reached)
    return result
