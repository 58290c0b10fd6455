"""Effects of factors and their interactions, with 95 percent intervals that hold for all of them.

Values are taken as logarithms, so that an effect is a ratio.  The error comes from the repetitions:
from the differences between blocks of one combination's value, after the mean of each block was
subtracted.  A whole plot is a group of runs with the same levels of the factors that are expensive
to switch.  With whole plots the error has two parts, between plots and within them.  The error of
an effect has a share of both parts: of the first as far as the effect's column differs between
plots, of the second as far as the column differs within them.

The width of the intervals comes from permutations (ter Braak 1992): the residuals are exchanged
within each block, whole plots with whole plots and runs within their plot, for all metrics
together.  Of each permutation the largest effect of all terms and metrics, in standard errors, is
kept (max-statistic).  As few blocks have few different permutations, the width is never less than
that of Student's t, corrected for the number of terms (Sidak).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replayer.analysis.differences.statistics import ALPHA
from replayer.lazy_import import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replayer.experiments.design import FactorialDesign, Floats, Places, Term

DRAWN = 1999
"""The number of permutations."""
LEVEL = ALPHA / 2
"""The allowed share of false alarms of one analysis of the runs so far.

An experiment that goes on until its intervals are narrow ends a little too often when the spread
happens to be small (Chow and Robbins 1965).  Half of ALPHA makes up for that: with it, the
simulation in `tests` has no more false alarms than ALPHA."""
_TINY = 1e-12
"""The least effect or error, as a share of the values: what is below it is a residue of rounding.

Logarithms, of values of any size, are rounded by less than 2e-13."""
_SEED = 20240229


@dataclass(frozen=True, slots=True)
class EffectEstimate:
    """The effect of one term on one metric: a difference of logarithms, from first to second level.

    `low` and `high` are the ends of the 95 percent interval of `value`, which holds for all terms
    and metrics together.  `p` is corrected for the number of terms and metrics.
    """

    term: Term
    metric: str
    value: float
    low: float
    high: float
    p: float
    error: float
    """The standard error of the effect."""

    @property
    def named(self) -> bool:
        """Return whether the effect was shown: its interval does not contain 0."""
        return self.low > 0 or self.high < 0

    def settled(self, within: float) -> bool:
        """Return whether the effect is known well enough: half of its interval is at most `within`.

        `within` is a share, such as 0.02.
        """
        return (self.high - self.low) / 2 <= math.log1p(within)


@dataclass(frozen=True, slots=True)
class EffectTable:
    """The estimated effects of an experiment, and the number of its blocks and of its runs."""

    estimates: tuple[EffectEstimate, ...]
    blocks: int
    runs: int
    width: float
    """Half of the width of each 95 percent interval, in standard errors of its effect."""

    def of_metric(self, metric: str) -> tuple[EffectEstimate, ...]:
        """Return the estimates for one metric."""
        return tuple(one for one in self.estimates if one.metric == metric)

    def settled(self, within: float) -> bool:
        """Return whether the effect of each factor is known well enough.

        That is: half of its interval is at most `within`, a share such as 0.02.
        """
        return all(one.settled(within) for one in self.estimates if not one.term.interaction)

    def blocks_to_settle(self, within: float) -> int:
        """Return how many blocks are needed until the effect of each factor is settled.

        That is: half of its interval is at most `within`, a share such as 0.02.  The spread is
        taken as constant: the width of an interval then shrinks with the square root of the number
        of blocks.
        """
        widest = max((e.high - e.low) / 2 for e in self.estimates if not e.term.interaction)
        wanted = self.blocks * (widest / math.log1p(within)) ** 2
        return max(self.blocks, math.ceil(min(wanted, 1e6) - _TINY))


def estimate_effects(
    design: FactorialDesign, values: Floats, metrics: Sequence[str]
) -> EffectTable:
    """Return the estimated effects of all terms (factors and interactions) on all metrics.

    `values` are above 0, in an array of the shape blocks x combinations x metrics.
    """
    logs = np.log(values)
    logs -= logs.mean(axis=1, keepdims=True)
    spread = _Spread(design)
    terms = design.terms()
    columns = np.array([design.column(term.factors) for term in terms]).T
    contrasts = columns * (2 / design.size)
    drawn = _permuted_maxima(spread, contrasts, logs)
    width = max(float(np.quantile(drawn, 1 - LEVEL)), spread.student(len(logs), len(terms)))
    if design.partly_aliased():
        contrasts = _Fit(terms, columns, spread, logs, width).separate(contrasts)
    effects, errors = spread.studentise(contrasts, logs[None])
    estimates = []
    for i, term in enumerate(terms):
        for k, metric in enumerate(metrics):
            value, error = float(effects[0, i, k]), float(errors[0, i, k])
            beyond = int(np.count_nonzero(drawn >= abs(value) / max(error, _TINY)))
            reach = width * error
            alone = spread.student_p(abs(value) / max(error, _TINY), len(logs), len(terms))
            p = max((1 + beyond) / (1 + len(drawn)), alone)
            estimates.append(
                EffectEstimate(term, metric, value, value - reach, value + reach, p, error)
            )
    return EffectTable(tuple(estimates), len(logs), len(logs) * design.size, width)


class _Spread:
    """The random error of an experiment's values, as a sum of two parts.

    One part is between whole plots (groups of runs with the same levels of the factors that are
    expensive to switch), the other between the runs of a plot.
    """

    def __init__(self, design: FactorialDesign) -> None:
        plots = design.plots()
        member = (plots[:, None] == np.arange(int(plots.max()) + 1)).astype(np.float64)
        self.between: Floats = member / member.sum(axis=0) @ member.T
        """Matrix that replaces the value of each run by the mean of the run's whole plot."""
        self.plots: Places = plots
        self.free = (member.shape[1] - 1, design.size - member.shape[1])
        """The degrees of freedom of each block: between whole plots, and within them."""

    def studentise(self, contrasts: Floats, logs: Floats) -> tuple[Floats, Floats]:
        """Return the effects and their standard errors, two arrays of draws x terms x metrics.

        `logs` are logarithms of values: draws x blocks x combinations x metrics.  A draw is one
        permutation of them.  `contrasts` (combinations x terms) are the weights with which the
        values of the combinations add up to each effect.
        """
        means = logs.mean(axis=1)
        effects = _without_residues(np.einsum("nt,dnm->dtm", contrasts, means))
        rest = logs - means[:, None]
        whole = np.einsum("ij,dbjm->dbim", self.between, rest)
        blocks = logs.shape[1]
        squares = ((whole**2).sum(axis=(1, 2)), ((rest - whole) ** 2).sum(axis=(1, 2)))
        parts = self._parts(contrasts)
        variance = sum(
            part[None, :, None] * (square / ((blocks - 1) * free))[:, None, :]
            for part, square, free in zip(parts, squares, self.free, strict=True)
            if free
        )
        return effects, _without_residues(np.sqrt(np.maximum(variance, 0) / blocks))

    def _parts(self, contrasts: Floats) -> tuple[Floats, Floats]:
        """Return by how much each of the two parts of the error counts in the error of each effect.

        Each result has one weight for each column of `contrasts`: the squared length of what
        differs between whole plots, and of what differs within them.
        """
        whole = self.between @ contrasts
        return (whole**2).sum(axis=0), ((contrasts - whole) ** 2).sum(axis=0)

    def student(self, blocks: int, terms: int) -> float:
        """Return half the width, in standard errors, of intervals that hold for all effects.

        It follows from Student's t distribution, from the number of blocks and from `terms`, the
        number of effects.
        """
        level = 1 - (1 - LEVEL) ** (1 / terms)
        return float(load("scipy.stats").t.ppf(1 - level / 2, self._freedom(blocks)))

    def student_p(self, size: float, blocks: int, terms: int) -> float:
        """Return the corrected p value of one of `terms` effects; `size` is in standard errors."""
        single = 2 * float(load("scipy.stats").t.sf(size, self._freedom(blocks)))
        return -math.expm1(terms * math.log1p(-min(single, 1 - _TINY)))

    def _freedom(self, blocks: int) -> int:
        return (blocks - 1) * min(int(one) for one in self.free if one)

    def exchange(self, blocks: int, draws: int) -> Places:
        """Return random permutations of the runs of each block: draws x blocks x combinations.

        The values are indexes of runs.  Whole plots of the same size change places with each other,
        and the runs of a plot among themselves.
        """
        random = np.random.default_rng(_SEED)
        sizes = np.bincount(self.plots)
        shape = (draws, blocks, len(self.plots))
        keys = random.random((draws, blocks, len(sizes)))[:, :, self.plots]
        # Only plots of the same size take each other's places.
        taken = np.lexsort((random.random(shape), keys, np.broadcast_to(sizes[self.plots], shape)))
        slots = np.lexsort((self.plots, sizes[self.plots]))
        places: Places = np.empty(shape, np.int64)
        places[:, :, slots] = taken
        return places


def _without_residues(values: Floats) -> Floats:
    return np.where(np.abs(values) < _TINY, 0.0, values)


def _permuted_maxima(spread: _Spread, contrasts: Floats, logs: Floats) -> Floats:
    """Return for each random permutation the largest effect, in standard errors, of all terms.

    All metrics are considered together.  `contrasts` (combinations x terms) are the weights with
    which values add up to effects.  `logs` are logarithms of the values: blocks x combinations x
    metrics.
    """
    rest = logs - logs.mean(axis=0)
    blocks = len(logs)
    maxima = []
    for taken in np.array_split(spread.exchange(blocks, DRAWN), 1 + DRAWN * rest.size // 4_000_000):
        shuffled = rest[np.arange(blocks)[None, :, None], taken]
        effects, errors = spread.studentise(contrasts, shuffled)
        maxima.append((np.abs(effects) / np.maximum(errors, _TINY)).max(axis=(1, 2)))
    return np.concatenate(maxima)


@dataclass(frozen=True, slots=True)
class _Fit:
    """The terms of a design with their columns, and the values that they are fitted to."""

    terms: Sequence[Term]
    columns: Floats
    """Combinations x terms, -1 or 1."""
    spread: _Spread
    logs: Floats
    """Logarithms of the values: blocks x combinations x metrics."""
    width: float
    """An effect of more standard errors than this clearly differs from 0."""

    def separate(self, contrasts: Floats) -> Floats:
        """Return weights with which interactions with correlated columns are estimated separately.

        `contrasts` are the weights for an estimate of each interaction alone.  The strongest
        interaction is fitted first, then the strongest of the others together with it, and so on,
        as long as the strongest one clearly differs from 0.
        """
        shown: list[int] = []
        pending = [i for i, term in enumerate(self.terms) if term.interaction]
        while pending and len(shown) < len(self.columns) // 2 - 1:
            effects, errors = self.spread.studentise(contrasts, self.logs[None])
            strength = (np.abs(effects[0]) / np.maximum(errors[0], _TINY)).max(axis=1)
            best = max(pending, key=lambda i: float(strength[i]))
            if strength[best] <= self.width:
                break
            shown.append(best)
            pending.remove(best)
            contrasts = self._refit(contrasts, shown, pending)
        return contrasts

    def _refit(self, contrasts: Floats, shown: list[int], pending: Sequence[int]) -> Floats:
        """Return `contrasts` with new weights for the interactions in `shown` and in `pending`.

        Those in `shown` are fitted together.  Each in `pending` is fitted together with all `shown`
        ones.
        """
        fitted = contrasts.copy()
        fitted[:, shown] = 2 * np.linalg.pinv(self.columns[:, shown]).T
        for i in pending:
            together = self.columns[:, [*shown, i]]
            whole = np.linalg.matrix_rank(together) == len(shown) + 1
            fitted[:, i] = 2 * np.linalg.pinv(together)[-1] if whole else 0.0
        return fitted
