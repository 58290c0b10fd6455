"""Decide if the two ends of an ordered list differ, before a change is searched between them.

The ends are measured in turns.  After some of the pairs there is a look: Student's two-sample t
interval of the difference of their logarithms, with the part of the 5 percent chance of an error
that this look may use (`looks.share`).  So the intervals of all looks together hold with 95
percent, however often one looks.  The ends differ if an interval excludes 0.  They are alike if an
interval lies within a bound: 2 percent, or the noise of one run where that is more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from replayer.analysis.differences import statistics
from replayer.experiments import looks

FEWEST = 2
"""The fewest measurements of each end at a look."""
WITHIN = 0.02
"""The share by which the ends may differ and still count as equal, if the noise is not larger."""
_FEWEST_ALIKE = statistics.units_to_show(1.0, 1)
"""The fewest measurements of each end for "alike": with fewer, a rank test could show nothing."""


class EndsVerdict(StrEnum):
    """The verdict on the difference of the first and the last candidate of a search."""

    OPEN = "open"
    DIFFER = "differ"
    ALIKE = "alike"


@dataclass(frozen=True)
class EndsTrial:
    """The logarithms that were measured at the two ends, and the verdict on their difference.

    A verdict other than OPEN is final.  `low` and `high` are the ends of the interval of the
    difference of the logarithms, last end less first, at the newest look; None before a look.
    """

    logs: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    looked: int = 0
    look_at: int = FEWEST
    low: float | None = None
    high: float | None = None
    verdict: EndsVerdict = EndsVerdict.OPEN

    @property
    def pairs(self) -> int:
        """Return the number of measurements of the end that has fewer."""
        return min(map(len, self.logs))

    def with_log(self, end: int, log: float) -> EndsTrial:
        """Return a copy with one more logarithm of an end, 0 or 1, after a look if one is due."""
        if self.verdict is not EndsVerdict.OPEN:
            return self
        first, last = self.logs
        grown = replace(self, logs=((*first, log), last) if end == 0 else (first, (*last, log)))
        return grown.with_look() if grown.pairs >= self.look_at else grown

    def with_look(self) -> EndsTrial:
        """Return a copy after one more look at the measurements so far, with its verdict."""
        looked = self.looked + 1
        first, last = (np.array(logs) for logs in self.logs)
        noise = self._noise()
        error = noise * math.sqrt(1 / first.size + 1 / last.size)
        certainty = 1 - looks.share(looked) * statistics.ALPHA / 2
        wide = error * statistics.student_quantile(first.size + last.size - 2, certainty)
        shift = float(last.mean() - first.mean())
        low, high = shift - wide, shift + wide
        verdict = EndsVerdict.OPEN
        if low > 0 or high < 0:
            verdict = EndsVerdict.DIFFER
        elif self.pairs >= _FEWEST_ALIKE and max(-low, high) <= max(math.log1p(WITHIN), noise):
            verdict = EndsVerdict.ALIKE
        return replace(
            self,
            looked=looked,
            look_at=looks.next_look(self.pairs),
            low=low,
            high=high,
            verdict=verdict,
        )

    def _noise(self) -> float:
        """Return the standard deviation of a logarithm, from the spread within each end.

        Values that are measured in steps, such as small counts, may be equal though they have
        noise.  The variance is therefore never below that of rounding to the smallest step between
        two of them (W. F. Sheppard, 1898).
        """
        squares = sum(float(np.sum((np.array(logs) - np.mean(logs)) ** 2)) for logs in self.logs)
        steps = np.diff(np.unique([*self.logs[0], *self.logs[1]]))
        least = float(steps.min()) ** 2 / 12 if steps.size else 0.0
        return math.sqrt(max(squares / (sum(map(len, self.logs)) - 2), least))
