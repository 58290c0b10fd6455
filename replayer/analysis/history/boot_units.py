"""The units of a history: single runs, or boots where the runs of a boot resemble each other.

A boot may move all of its runs: its memory has other addresses, or other programs were started.
Where boots differ by more than the noise of their runs explains, ten runs of a boot prove no more
than one.  Such a history has one value for each boot: the median of its runs.
"""

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from replayer.analysis.differences.level_changes import Floats

_TO_SIGMA = 1.4826
"""Standard deviation / median absolute deviation, for normal values."""
_MEDIAN_VARIANCE = math.pi / 2
"""Variance of the median / variance of the mean of many normal values."""
FEWEST = 4
"""The fewest boots that show if boots differ: of fewer, one change moves most differences."""
_DIFFER = 1.3
"""Boots differ if their medians spread by this many times what the noise of their runs explains."""


def starts(values: Floats, boots: Sequence[str]) -> list[int]:
    """Return the index of the first run of each unit of a series; a unit is a boot, or one run.

    `values` has one value per run, in the order of time, and `boots` the boot of each run, "" if it
    is not known.  Units are boots if some boot has several runs, and if boots differ by more than
    their runs.  Fewer than four boots do not show if they differ: units are then runs.
    """
    firsts = _firsts(boots)
    if not FEWEST <= len(firsts) < len(values) or not _differ(values, firsts):
        return list(range(len(values)))
    return firsts


def medians(values: Floats, firsts: Sequence[int]) -> Floats:
    """Return the median of the runs of each unit; `firsts` has the index of each one's first."""
    if len(firsts) == len(values):
        return values
    return np.array([np.median(part) for part in np.split(values, firsts[1:])], np.float64)


def within(starts: Sequence[int], begin: int, end: int) -> list[int]:
    """Return the first run of each unit in a part of a series, as indices in that part.

    `starts` has those of the whole series.  If the part begins inside of a unit, the rest of this
    unit is the first one.
    """
    return [0, *(at - begin for at in starts if begin < at < end)]


def _firsts(boots: Sequence[str]) -> list[int]:
    """Return the index of the first run of each boot; a run of an unknown boot is alone."""
    groups = groupby(range(len(boots)), key=lambda at: boots[at] or at)
    return [next(group) for _, group in groups]


def _differ(values: Floats, firsts: Sequence[int]) -> bool:
    """Return whether boots differ by more than the noise of their runs explains.

    The noise is estimated from neighbouring runs of a boot, and the spread of boots from
    neighbouring boots.  Both are medians, so that a few changes of the level hardly affect them.
    """
    steps = np.abs(np.diff(values))
    is_border = np.isin(np.arange(1, len(values)), firsts)
    noise = float(np.median(steps[~is_border])) * _TO_SIGMA / math.sqrt(2)
    sizes = np.diff([*firsts, len(values)])
    # The median of one or two values is their mean.
    shares = np.where(sizes > 2, _MEDIAN_VARIANCE, 1.0) / sizes
    explained = noise * np.sqrt(shares[1:] + shares[:-1])
    moved = np.abs(np.diff(medians(values, firsts)))
    return bool(np.median(moved - _DIFFER / _TO_SIGMA * explained) > 0)
