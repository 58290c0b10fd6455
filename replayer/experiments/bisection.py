"""Find the first of an ordered list that differs, although every measurement has noise.

The model: the candidates before the change have one level, the candidates from the change on have
another, and measurements have normal noise; all values are logarithms.  The levels and the noise
are not known: they are learnt from the same measurements, with a normal-inverse-gamma prior (A.
Gelman et al., *Bayesian Data Analysis*, section 3.3).  The marginal likelihood of a place gives the
probability that the change is there.  "No change at all" is one more answer.  It only becomes
certain very slowly, as a change may be small: whether there is one is decided before, by the two
ends of the list (`ends.py`).  The next candidate is the one whose measurement is expected to give
most information (M. Horstein, *Sequential transmission using noiseless feedback*, 1963; J. Kara's
stochastic bisection of git, 2021).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from replayer.experiments.ends import EndsTrial, EndsVerdict

Floats = NDArray[np.float64]

SURE = 0.95
"""The probability from which on one place is the answer; several places have it together."""
_NO_CHANGE = 0.1
"""The probability of no change before any measurement: it is low, as the user has seen a change."""
_LEVELS_TOO = 0.2
"""The weight of information about the two levels; information about the place has weight 1."""
_NOISE = 0.02
"""The standard deviation of a value's logarithm that is expected before any measurement."""
_FREEDOM = 1.0
"""Half of the number of measurements that the expected noise counts as."""
_SHIFT = 2.0
"""The standard deviation of the change before anything is measured, in units of the noise."""
_LOOSE = 1e-6
_GRID = 80
_NEGLIGIBLE = 1e-6
_LEVELS = tuple(np.linspace(0.1, 0.9, 9))
"""Only candidates that are after the change with about these probabilities are considered."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_WEIGHTS /= _WEIGHTS.sum()


@dataclass(frozen=True)
class Bisection:
    """The measurements so far: for each candidate their number, and the sum of their logarithms.

    A candidate is one of the ordered things among which the first that differs is searched.
    `squares` is the sum of the squares of all logarithms.
    """

    candidates: int
    counts: tuple[int, ...] = ()
    sums: tuple[float, ...] = ()
    squares: float = 0.0
    origin: float = 0.0
    """The logarithm of the first value, which is subtracted from each logarithm."""
    ends: EndsTrial = field(default_factory=EndsTrial)
    """The measurements of the first and the last candidate, until it is known if they differ."""

    def __post_init__(self) -> None:
        if not self.counts:
            object.__setattr__(self, "counts", (0,) * self.candidates)
            object.__setattr__(self, "sums", (0.0,) * self.candidates)

    def with_value(self, candidate: int, value: float) -> "Bisection":
        """Return a copy with one more measured value, above 0, of the candidate with this index."""
        origin = self.origin if any(self.counts) else math.log(value)
        log = math.log(value) - origin
        counts, sums = list(self.counts), list(self.sums)
        counts[candidate] += 1
        sums[candidate] += log
        ends = self.ends
        if candidate in (0, self.candidates - 1):
            ends = ends.with_log(int(candidate > 0), log)
        return replace(
            self,
            counts=tuple(counts),
            sums=tuple(sums),
            squares=self.squares + log * log,
            origin=origin,
            ends=ends,
        )

    def measured_at(self, place: int) -> tuple[float, float]:
        """Return the change and the noise that were measured, if the change is at this candidate.

        The change is the mean of the logarithms from there on, less the mean before.  The noise is
        the standard deviation of a logarithm, from the spread within both sides.  Unlike those of
        the posterior, they know no prior.  The change is 0 before both sides have a value.
        """
        sizes = np.array([sum(self.counts[:place]), sum(self.counts[place:])], float)
        if not sizes.all():
            return 0.0, 0.0
        means = np.array([sum(self.sums[:place]), sum(self.sums[place:])]) / sizes
        squares = max(0.0, self.squares - float(sizes @ means**2))
        return float(means[1] - means[0]), math.sqrt(squares / max(1.0, sizes.sum() - 2))

    def posterior(self) -> "Posterior":
        """Return the probability of each place of the change, and of no change, by these values."""
        counts, sums = np.array(self.counts, float), np.array(self.sums)
        # For the change at candidate k: the measurements from k on.
        after, moved = counts[::-1].cumsum()[::-1][1:], sums[::-1].cumsum()[::-1][1:]
        whole, total = counts.sum(), sums.sum()
        p, q = whole + _LOOSE, after + _SHIFT**-2
        det = p * q - after**2
        level = (q * total - after * moved) / det
        shift = (p * moved - after * total) / det
        freedom = _FREEDOM + whole / 2
        start = _FREEDOM * _NOISE**2
        left = start + np.maximum(0, self.squares - level * total - shift * moved) / 2
        flat = start + max(0.0, self.squares - total * total / p) / 2
        likelihood = -np.log(det * _SHIFT**2) / 2 - freedom * np.log(left)
        without = -math.log(p) / 2 - freedom * math.log(flat)
        prior = math.log((1 - _NO_CHANGE) / (self.candidates - 1))
        logs = np.append(likelihood + prior, without + math.log(_NO_CHANGE))
        chances = np.exp(logs - logs.max())
        chances /= chances.sum()
        noise = np.sqrt(left / freedom)
        still = math.sqrt(flat / freedom)
        unknown = np.append(noise, still), np.append(q / det, 1 / p)
        moved_too = np.append((p + q - 2 * after) / det, 1 / p)
        return Posterior(
            chances[:-1],
            float(chances[-1]),
            shift,
            noise,
            still,
            before=(np.append(level, total / p), unknown[0] * np.sqrt(1 + unknown[1])),
            after=(np.append(level + shift, total / p), unknown[0] * np.sqrt(1 + moved_too)),
        )


@dataclass(frozen=True)
class Posterior:
    """The probabilities of all answers of the search, after the measurements so far.

    An answer is the place of the change (the first candidate that differs), or that there is no
    change.  For each place there are also the estimated size of the change and of the noise.
    """

    chances: Floats
    """For each candidate from the second on: the chance that the change is there."""
    no_change: float
    shifts: Floats
    """For each candidate from the second on: the size of the change, as a difference of logarithms,
    if it is there."""
    noises: Floats
    """For each candidate from the second on: the standard deviation of a measured logarithm, if the
    change is there."""
    still: float
    """The standard deviation of a measured logarithm if there is no change."""
    before: tuple[Floats, Floats]
    """The mean and the standard deviation of the next measurement of a candidate before the change,
    for each place and, at last, for no change."""
    after: tuple[Floats, Floats]
    """The mean and the standard deviation of the next measurement of a candidate from the change
    on, for each place and, at last, for no change."""

    @property
    def best(self) -> int:
        """Return the index of the candidate that is most probably the first after the change."""
        return int(self.chances.argmax()) + 1

    @property
    def chance(self) -> float:
        """Return the probability, from 0 to 1, of the most probable place of the change."""
        return float(self.chances.max())

    @property
    def is_settled(self) -> bool:
        """Return whether the most probable place of the change has the probability SURE or more."""
        return self.chance >= SURE

    @property
    def shift(self) -> float:
        """Return the estimated change of the logarithm of the measured value.

        It is the mean of the estimates for all places, weighted with their probabilities.
        """
        return float(self.chances @ self.shifts / max(self.chances.sum(), 1e-300))

    @property
    def noise(self) -> float:
        """Return the estimated standard deviation of the logarithm of one measured value.

        It is the mean of the estimates for all places, weighted with their probabilities.
        """
        return float(self.chances @ self.noises / max(self.chances.sum(), 1e-300))

    def left(self) -> list[int]:
        """Return the indexes of the candidates that may be the first after the change, sorted.

        They are the fewest that have 95 percent probability together, if there is a change at all.
        """
        order = np.argsort(-self.chances)
        share = self.chances[order].cumsum() / max(self.chances.sum(), 1e-300)
        return sorted(int(place) + 1 for place in order[: int(np.searchsorted(share, SURE)) + 1])

    def is_after(self) -> Floats:
        """Return for each candidate the probability that the change is at it or before it.

        It is assumed that there is a change.
        """
        shares: Floats = np.append(0.0, self.chances.cumsum()) / max(self.chances.sum(), 1e-300)
        return shares

    def steps_left(self) -> int:
        """Return about how many measurements are needed until one place is 95 percent probable."""
        if self.is_settled:
            return 0
        shares = self.chances[self.chances > 0] / self.chances.sum()
        bits = max(0.0, float(-(shares * np.log2(shares)).sum()) - _bits_at(SURE))
        each = information(self.is_after(), abs(self.shift) / max(self.noise, 1e-12)).max()
        return max(1, math.ceil(bits / max(float(each), 1e-3)))


def choose(bisection: Bisection, posterior: Posterior) -> int:
    """Return the index of the candidate to measure next.

    The first and the last candidate come first, in turns, until they are shown to differ.  Then it
    is the candidate whose measurement is expected to give most information about the answer, a
    place or no change.  Among equal ones it is the candidate that was measured least.
    """
    last = bisection.candidates - 1
    if bisection.ends.verdict is not EndsVerdict.DIFFER:
        return 0 if bisection.counts[0] <= bisection.counts[last] else last
    after = posterior.is_after()
    looked_at = {0, last, *(int(np.abs(after - level).argmin()) for level in _LEVELS)}
    bits = {one: expected(posterior, one) for one in looked_at}
    most = max(bits.values())
    close = [one for one in looked_at if bits[one] >= most * (1 - 1e-6)]
    return min(close, key=lambda one: (bisection.counts[one], one))


def expected(posterior: Posterior, candidate: int) -> float:
    """Return how much information, in bits, one measurement of a candidate is expected to give.

    That is information about the answer: the entropy of the measurement, less the entropy that it
    would have if the answer were known.  To this is added a part of the information about the two
    levels, before and after the change.
    """
    places = len(posterior.chances)
    is_after = np.append(np.arange(1, places + 1) <= candidate, False)
    means = np.where(is_after, posterior.after[0], posterior.before[0])
    widths = np.where(is_after, posterior.after[1], posterior.before[1])
    chances = np.append(posterior.chances, posterior.no_change)
    known = chances > _NEGLIGIBLE
    means, widths, chances = means[known], widths[known], chances[known]
    noises = np.append(posterior.noises, posterior.still)[known]
    grid = np.linspace((means - 4 * widths).min(), (means + 4 * widths).max(), _GRID)
    scaled = (grid[:, None] - means) / widths
    density = (np.exp(-(scaled**2) / 2) / (widths * math.sqrt(2 * math.pi))) @ chances
    whole = -float((density * np.log2(np.maximum(density, 1e-300))).sum()) * (grid[1] - grid[0])
    single = float(chances @ np.log2(widths * math.sqrt(2 * math.pi * math.e)))
    levels = float(chances @ np.log2(widths / noises))
    return float(max(0.0, whole - single) + _LEVELS_TOO * max(0.0, levels))


def is_found(bisection: Bisection, posterior: Posterior) -> bool:
    """Return whether the search is over: the ends differ, and one place has 95 percent."""
    return bisection.ends.verdict is EndsVerdict.DIFFER and posterior.is_settled


def are_alike(bisection: Bisection) -> bool:
    """Return whether the first and the last candidate count as equal, which ends the search.

    `bisection.ends` then has the interval of their difference; a change within it may be there.
    """
    return bisection.ends.verdict is EndsVerdict.ALIKE


def information(after: Sequence[float] | Floats, distance: float) -> Floats:
    """Return the bits of information that a measurement gives on whether it is after the change.

    `after` are the probabilities, before the measurement, that it is; the result has one value for
    each.  `distance` is the difference of the two levels, divided by the noise.  In terms of
    information theory, the result is the mutual information of a bit and of the same bit after a
    channel with normal noise.
    """
    chances = np.asarray(after, np.float64)[:, None]
    inside = np.clip(chances, 1e-12, 1 - 1e-12)
    # For a value at each node, from either level: the logarithm of the odds of the second level.
    low = distance * _NODES - distance**2 / 2
    high = distance * _NODES + distance**2 / 2
    odds = np.log(inside / (1 - inside))
    left = (1 - inside) * (_entropy(odds + low) @ _WEIGHTS)[:, None]
    left += inside * (_entropy(odds + high) @ _WEIGHTS)[:, None]
    bits: Floats = (_entropy(odds) - left)[:, 0]
    return np.maximum(0.0, bits)


def least(candidates: int, distance: float) -> float:
    """Return the fewest measurements, on average, with which any method can find the change.

    `candidates` is the number of candidates, and `distance` the change of the level, divided by the
    noise.  The result is the bits of the answer, divided by the most bits that one measurement can
    give (C. E. Shannon, 1948).  It holds even if levels and noise are known.
    """
    return math.log2(candidates - 1) / float(information([0.5], distance)[0])


def _entropy(odds: Floats) -> Floats:
    """Return the entropy, in bits, of yes-or-no questions.

    `odds` has for each the logarithm of the odds of yes.
    """
    size = np.abs(odds)
    tail = np.exp(-size)
    bits: Floats = (np.log1p(tail) + size * tail / (1 + tail)) / math.log(2)
    return bits


def _bits_at(chance: float) -> float:
    return float(_entropy(np.array([math.log(chance / (1 - chance))]))[0])
