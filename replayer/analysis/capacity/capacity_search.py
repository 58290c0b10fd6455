"""Search for the highest multiple of a rate that is sustained: double, bisect, repeat both ends.

The search does not run anything itself: it asks for a trial at one multiple after the other.  A
trial meets the objective, fails it, or could not be offered by the clients.
"""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from replayer.lazy_import import Later

if TYPE_CHECKING:
    from scipy import special
else:
    # Few commands search a capacity, and it takes a fifth of a second to load.
    special = Later("scipy.special")

USUAL_TRIALS = 10
"""The number of trials that a search usually takes."""
_NOISES = {0.005: 18, 0.01: 18, 0.02: 18, 0.04: 16, 0.08: 13, 0.16: 11, 0.25: 6}
"""Standard deviation of the logarithm of the capacity between trials -> its prior weight."""
_FLUKE = 0.02
"""The share of trials whose result is chance and does not depend on the capacity."""
_BEYOND = 0.5
"""The natural logarithm of how far beyond the tried multiples the capacity may be."""
_POINTS = 1000


class SearchTrial(StrEnum):
    """The result of one trial of a capacity search, which offers one multiple of a rate."""

    HELD = "held"
    """Sustained, and within the objective."""
    FAILED = "failed"
    NOT_OFFERED = "not offered"
    """The clients could not offer that rate, so the trial shows nothing about the machine."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The result of a search for the highest multiple of a rate that is sustained.

    All its values are multiples of that rate.
    """

    accepted: float | None
    """The highest multiple that held in all its trials, at least two; None if none did."""
    refused: float | None
    """The lowest multiple above `accepted` that failed in all its trials, at least two.

    None if no multiple did that was allowed and that the clients could offer.
    """
    low: float
    """The lower end of the 95 percent interval of the capacity; 0 if nothing held."""
    high: float
    """The upper end of the same interval; infinite if nothing failed."""
    clear: bool
    """True if the search was finished, and trials agreed at all multiples between both ends.

    The ends are `accepted` and `refused`.
    """
    disputed: tuple[float, ...]
    """All multiples whose trials disagreed."""
    not_offered: float | None
    """The lowest multiple that the clients could not offer; None if they offered all."""
    trials: tuple[tuple[float, SearchTrial], ...]
    """(multiple, result) of each trial, in the order in which they were run."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The limits of a capacity search: the multiples of a rate to try, and the number of trials.

    `start` is the multiple of the first trial.
    """

    resolution: float = 0.05
    """The distance between two neighbouring multiples, as a share of the smaller one."""
    start: float = 1.0
    least: float = 1 / 64
    most: float = 64.0
    """Multiples below `least` or above `most` are never tried."""
    trials: int = 40
    """The largest number of trials; the search ends there even without a result."""

    def __post_init__(self) -> None:
        assert 0 < self.least <= self.start <= self.most, "the start lies within the limits"
        assert self.resolution > 0, "a multiple is larger than the one before it"


@dataclass
class _Book:
    """The record of a search's trials so far, by rung: a numbered step on the scale of multiples.

    Rung n is the multiple start * (1 + resolution) ** n of the searched rate.
    """

    limits: SearchLimits
    history: list[tuple[int, SearchTrial]] = field(default_factory=list)
    top: int = 0
    """The highest rung that may be tried; it falls if the clients cannot offer a rate."""
    bottom: int = 0
    cut: bool = False
    """True if the search was ended early."""

    def __post_init__(self) -> None:
        step = math.log1p(self.limits.resolution)
        self.top = math.floor(math.log(self.limits.most / self.limits.start) / step + 1e-9)
        self.bottom = math.ceil(math.log(self.limits.least / self.limits.start) / step - 1e-9)

    def multiple(self, rung: int) -> float:
        return float(self.limits.start * (1 + self.limits.resolution) ** rung)

    def add(self, rung: int, ended: SearchTrial) -> None:
        self.history.append((rung, ended))
        if ended is SearchTrial.NOT_OFFERED:
            self.top = min(self.top, rung - 1)

    def count(self, rung: int, ended: SearchTrial) -> int:
        return sum(1 for at, how in self.history if (at, how) == (rung, ended))

    @property
    def gave_up(self) -> bool:
        return any(ended is SearchTrial.NOT_OFFERED for _, ended in self.history)

    @property
    def spent(self) -> bool:
        return len(self.history) >= self.limits.trials

    @property
    def tried(self) -> list[int]:
        return sorted(
            {rung for rung, ended in self.history if ended is not SearchTrial.NOT_OFFERED}
        )

    @property
    def disputed(self) -> list[int]:
        """Return the rungs (numbers of multiples) at which some trials held and others failed."""
        return [rung for rung in self.tried if self.disagrees(rung)]

    def disagrees(self, rung: int) -> bool:
        return bool(self.count(rung, SearchTrial.HELD) and self.count(rung, SearchTrial.FAILED))

    def unanimous(self, rung: int, ended: SearchTrial) -> bool:
        """Return whether a rung (number of a multiple) has trials, all with the result `ended`."""
        return self.count(rung, ended) > 0 and not self.disagrees(rung)

    @property
    def wanted(self) -> int:
        """Return the number of trials of a multiple that must agree: 2, or 3 if any disagreed."""
        return 3 if self.disputed else 2

    def sure(self, rung: int, ended: SearchTrial) -> bool:
        """Return whether all trials of a rung had the result `ended`, and there are enough of them.

        A rung is the number of a multiple.  Two trials are enough, or three if trials of any rung
        disagreed.  A search that was cut short could not repeat trials.  For it, a trial that held
        at a higher rung counts as well, or one that failed at a lower rung.
        """
        if not self.unanimous(rung, ended):
            return False
        beyond = (
            range(rung, self.top + 1) if ended is SearchTrial.HELD else range(self.bottom, rung + 1)
        )
        many = sum(how is ended and (at in beyond) for at, how in self.history)
        return (many if self.cut else self.count(rung, ended)) >= self.wanted

    def low(self, *, sure: bool = False) -> int | None:
        """Return the highest rung (number of a multiple) at which all trials held.

        It must be below the rung that `high` returns.  With `sure`, it must also have enough
        trials, two or three.  Returns None if there is no such rung.
        """
        test = self.sure if sure else self.unanimous
        ceiling = self.high()
        held = [
            rung
            for rung in self.tried
            if test(rung, SearchTrial.HELD) and (ceiling is None or rung < ceiling)
        ]
        return max(held, default=None)

    def high(self, *, sure: bool = False) -> int | None:
        """Return the lowest rung (number of a multiple) at which all trials failed.

        It must be above each rung that held in enough trials, two or three.  With `sure`, it must
        have enough trials itself.  Returns None if there is no such rung.
        """
        test = self.sure if sure else self.unanimous
        floor = max((r for r in self.tried if self.sure(r, SearchTrial.HELD)), default=None)
        failed = [
            rung
            for rung in self.tried
            if test(rung, SearchTrial.FAILED) and (floor is None or rung > floor)
        ]
        return min(failed, default=None)


def _never_enough() -> bool:
    return False


def search(
    trial: Callable[[float], SearchTrial],
    limits: SearchLimits | None = None,
    enough: Callable[[], bool] = _never_enough,
) -> Capacity:
    """Return the highest multiple of a rate that is sustained, found by a series of trials.

    `trial` is called with a multiple, makes a trial at it, and returns its result.  `limits` are
    the default ones if None.  `enough` is called before each trial except the first; the search
    ends when it returns True.

    From the start, the multiple is doubled as long as it holds, or halved until it holds.  Then the
    bracket between a multiple that held and one that failed is bisected down to the resolution.
    Before halving, the multiple that failed is run once more: after a failure by chance, all lower
    multiples would be searched in vain.  Both ends of the bracket are run again before they are
    accepted.  If the trials of an end disagree, it is not an end.  The search continues beyond it,
    in steps that double, and from then on three trials must agree instead of two.

    The interval contains both ends and the 95 percent credible interval of the capacity.  In this
    model, each trial has its own capacity, whose logarithm is normally distributed.  Its standard
    deviation, the noise from trial to trial, is between half a percent and a quarter.
    """
    steps = search_steps(limits or SearchLimits(), enough)
    multiple = next(steps)
    while True:
        try:
            multiple = steps.send(trial(multiple))
        except StopIteration as end:
            capacity: Capacity = end.value
            return capacity


def search_steps(
    limits: SearchLimits, enough: Callable[[], bool] = _never_enough
) -> Generator[float, SearchTrial, Capacity]:
    """Search the highest multiple of a rate that is sustained, as a generator.

    It yields the multiple to try next, and the caller sends the result of this trial.  At its end
    it returns the capacity that was found.  `enough` is called before each trial except the first;
    the search ends when it returns True.
    """
    book = _Book(limits)
    for rung in _rungs(book):
        book.cut = bool(book.history) and enough()
        if book.spent or book.cut:
            break
        book.add(rung, (yield book.multiple(rung)))
    return _capacity(book)


def so_far(trials: Sequence[tuple[float, SearchTrial]], limits: SearchLimits) -> Capacity:
    """Return the capacity as far as the trials of an interrupted search show it.

    `trials` are pairs of a multiple of the searched rate and its result.  The field `clear` of the
    capacity is always False, because the search did not reach its end.
    """
    step = math.log1p(limits.resolution)
    rungs = [(round(math.log(multiple / limits.start) / step), ended) for multiple, ended in trials]
    book = _Book(limits, rungs)
    book.cut = True
    return replace(_capacity(book), clear=False)


def _rungs(book: _Book) -> Iterator[int]:
    """Yield each rung (number of a multiple) that a search is to try next.

    The caller adds the result of each trial to `book` before it asks for the next.  The search ends
    if there are enough trials at the highest multiple that held and at the lowest that failed, or
    if no further rung within the limits can help.
    """
    octave = max(1, round(math.log(2) / math.log1p(book.limits.resolution)))
    yield 0
    while True:
        low, high = book.low(), book.high()
        rung = _bracket(book, low, high, octave)
        if rung is None and low is not None and high is not None:
            rung = _between(book, low, high)
        if rung is None:
            rung = _again(book, low, high)
        if rung is None:
            return
        yield rung


def _bracket(book: _Book, low: int | None, high: int | None, octave: int) -> int | None:
    """Return the rung to try if no rung held yet (`low` is None) or none failed (`high` is None).

    A rung is the number of a multiple of the searched rate.  `octave` is the number of rungs to a
    factor of 2.  Returns None if both are known, or if no rung within the limits can be the missing
    one.  The rung is an octave (a factor of 2) from those that were tried.  But if trials of a rung
    disagreed, the rung is near that one, and in later trials farther and farther away.
    """
    highest, lowest = max(book.tried, default=0), min(rung for rung, _ in book.history)
    if high is None and book.tried and highest < book.top:
        # A rate that the clients could not offer is not tried again: bisect below it.
        middle = (highest + book.top + 1) // 2
        above = [rung for rung in book.tried if rung > max(book.disputed, default=rung)]
        return middle if book.gave_up else min(book.top, highest + _stride(book, octave, above))
    if low is None:
        if (
            book.unanimous(lowest, SearchTrial.FAILED)
            and book.count(lowest, SearchTrial.FAILED) == 1
        ):
            return lowest
        if lowest > book.bottom:
            below = [rung for rung in book.tried if rung < min(book.disputed, default=rung)]
            return max(book.bottom, lowest - _stride(book, octave, below))
    return None


def _stride(book: _Book, octave: int, beyond: Sequence[int]) -> int:
    """Return the distance, in rungs, to the next rung (number of a multiple) to try.

    It is `octave`, the number of rungs to a factor of 2.  If trials of a rung disagreed, it is at
    first 1, and then doubles with each rung in `beyond`.  These are the rungs that were tried
    beyond the one whose trials disagreed.
    """
    return min(octave, 1 << len(beyond)) if book.disputed else octave


def _between(book: _Book, low: int, high: int) -> int | None:
    """Return the middle one of the untried rungs between `low` and `high`; None without any.

    A rung is the number of a multiple of the searched rate.
    """
    untried = [rung for rung in range(low + 1, high) if rung not in book.tried]
    return untried[len(untried) // 2] if untried else None


def _again(book: _Book, low: int | None, high: int | None) -> int | None:
    """Return the rung (number of a multiple) to try again, because too few of its trials agree.

    It is `low` (the highest that held) or else `high` (the lowest that failed).  Returns None if
    both have enough trials, or are None.
    """
    if low is not None and not book.sure(low, SearchTrial.HELD):
        return low
    if high is not None and not book.sure(high, SearchTrial.FAILED):
        return high
    return None


def _capacity(book: _Book) -> Capacity:
    """Return the result of a capacity search from the trials in `book`."""
    low, high = book.low(sure=True), book.high(sure=True)
    inside = [
        rung
        for rung in book.disputed
        if (low is None or rung > low) and (high is None or rung < high)
    ]
    adjacent = low is not None and high is not None and high - low == 1
    done = adjacent or not (book.spent or book.cut)
    accepted = None if low is None else book.multiple(low)
    refused = None if high is None else book.multiple(high)
    trials = tuple((book.multiple(rung), ended) for rung, ended in book.history)
    likely = _believed(trials)
    return Capacity(
        accepted=accepted,
        refused=refused,
        low=0.0 if accepted is None else min(accepted, likely[0]),
        high=math.inf if refused is None else max(refused, likely[1]),
        clear=done and not inside,
        disputed=tuple(book.multiple(rung) for rung in book.disputed),
        not_offered=min(
            (m for m, ended in trials if ended is SearchTrial.NOT_OFFERED), default=None
        ),
        trials=trials,
    )


def _believed(trials: Sequence[tuple[float, SearchTrial]]) -> tuple[float, float]:
    """Return the interval (low, high) that contains the capacity with 95 percent, as multiples.

    It is a credible interval.  In its model, each trial has its own capacity, whose logarithm is
    normally distributed; the noise between trials is not known, and is summed over.  Trials whose
    rate the clients could not offer are not used.  Without any other trial, it is (0, infinity).
    """
    known = [(math.log(m), ended) for m, ended in trials if ended is not SearchTrial.NOT_OFFERED]
    if not known:
        return 0.0, math.inf
    tried = [at for at, _ in known]
    capacities = np.linspace(min(tried) - _BEYOND, max(tried) + _BEYOND, _POINTS)
    noises, weights = np.array(list(_NOISES)), np.array(list(_NOISES.values()))
    chances = np.repeat(np.log(weights)[:, None], _POINTS, axis=1)
    for at, ended in known:
        holds = special.ndtr((capacities - at) / noises[:, None])
        holds = _FLUKE / 2 + (1 - _FLUKE) * holds
        chances += np.log(holds if ended is SearchTrial.HELD else 1 - holds)
    belief = np.exp(chances - chances.max()).sum(axis=0)
    share = np.cumsum(belief) / belief.sum()
    low, high = (capacities[np.searchsorted(share, end)] for end in (0.025, 0.975))
    return math.exp(low), math.exp(high)
